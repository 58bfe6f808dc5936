/// Pooling of blocks of channels through oneDNN; of planes as ONNX has them, which oneDNN turns
/// into blocks and back, or pools by plain loops below AVX-512, by our own, as with the places of
/// the maxima. So is the mean of whole planes: 4.9 us instead of oneDNN's 17 for 64 of 28x28
/// (infer-bench kernels --alternatives).
#include <algorithm>
#include <array>

#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/kernels/common/step_results.h"
#include "runtime/cpu/kernels/pool/plane_places.h"
#include "runtime/cpu/kernels/pool/plane_pool.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

using Kind = onednn::PoolSpec::Kind;

std::string RefusePool(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (call.main().output(1)) return "the indices are wanted";
  return RefuseUnlessF32(call);
}

/// `in` and `out` as they lie: what is in bf16 stays so where no number is rounded again.
void SetOperands(Kind kind, const Operand& in, const Operand& out, onednn::PoolSpec& spec) {
  const bool bf16 = onednn::IsBf16(in.layout);
  const bool widened = bf16 && kind != Kind::kMax;
  spec.kind = kind;
  spec.src = {DType::kF32, in.dims,
              widened ? onednn::ChannelsLast(DType::kF32, in.dims) : in.layout};
  spec.dst = {DType::kF32, out.dims, {}, {}, true, bf16 && !widened};
}

/// How oneDNN may pool.
enum class Loops : uint8_t { kOfVectors, kAny };

Result<Prepared> PrepareSpec(const onednn::PoolSpec& spec, Loops loops) {
  INFER_ASSIGN(const onednn::Made made, onednn::MakePool(spec));
  if (loops == Loops::kOfVectors && made.name.find("simple") != std::string::npos)
    return Unsupported("oneDNN pools this layout by plain loops");
  Prepared p;
  p.name = made.name;
  p.in_layouts = {spec.src.layout};
  p.out_layouts = {made.dst};
  p.scratch_bytes = made.scratch_bytes;
  p.launch = MakeLaunch(made, {{onednn::Arg::kSrc, 0}, {onednn::Arg::kDst, 1}}, 2);
  return p;
}

/// The windows of a pooling, also where they are whole images.
struct Pooling {
  Kind kind = Kind::kMax;
  Spatial windows;

  static Result<Pooling> Of(const Node& node, const Operand& in, const Operand& out) {
    if (in.dims.size() < 3 || in.dims.size() > 5)
      return Unsupported("only 1 to 3 spatial dimensions");
    Pooling p;
    if (node.Is("GlobalAveragePool") || node.Is("GlobalMaxPool")) {
      p.kind = node.Is("GlobalMaxPool") ? Kind::kMax : Kind::kAverage;
      p.windows.kernel.assign(in.dims.begin() + 2, in.dims.end());
      for (Dims* d : {&p.windows.strides, &p.windows.dilations})
        d->assign(p.windows.kernel.size(), 1);
      for (Dims* d : {&p.windows.pads_begin, &p.windows.pads_end})
        d->assign(p.windows.kernel.size(), 0);
      return p;
    }
    INFER_ASSIGN(p.windows, SpatialOf(node, {}, in.dims, out.dims, false));
    if (node.Is("AveragePool")) {
      const bool counts = node.Attr<int64_t>("count_include_pad") != 0;
      if (counts && node.Attr<int64_t>("ceil_mode") != 0)
        return Unsupported("ceil_mode with counted padding");
      p.kind = counts ? Kind::kAverageWithPadding : Kind::kAverage;
    }
    const Spatial& s = p.windows;
    for (size_t i = 0; i < s.kernel.size(); ++i)
      if (s.pads_begin[i] >= s.kernel[i] || s.pads_end[i] >= s.kernel[i])
        return Unsupported("a window lies in the padding");
    return p;
  }
};

Result<Prepared> PrepareOneDnn(const Node& node, const Operand& in, const Operand& out,
                               Loops loops) {
  INFER_ASSIGN(const Pooling pooling, Pooling::Of(node, in, out));
  const Spatial& s = pooling.windows;
  for (int64_t d : s.dilations)
    if (d != 1) return Unsupported("dilation");
  onednn::PoolSpec spec;
  SetOperands(pooling.kind, in, out, spec);
  spec.kernel = s.kernel;
  spec.strides = s.strides;
  spec.pads_begin = s.pads_begin;
  spec.pads_end = s.pads_end;
  return PrepareSpec(spec, loops);
}

template <Loops kLoops>
std::unique_ptr<Kernel> MakeOneDnnPool(const StepCall& call) {
  const Node& node = call.main();
  return KernelOf([&node](std::span<const Operand> in, std::span<const Operand> out) {
    return PrepareOneDnn(node, in[0], out[0], kLoops);
  });
}

std::array<PoolAxis, 3> AxesOf(const Spatial& s, const Dims& in, const Dims& out) {
  std::array<PoolAxis, 3> axes;
  for (size_t i = 0; i < s.kernel.size(); ++i)
    axes[3 - s.kernel.size() + i] = {in[i + 2],    out[i + 2],     s.kernel[i],
                                     s.strides[i], s.dilations[i], s.pads_begin[i]};
  return axes;
}

/// Maxima or means of whole planes, which lie one behind the other.
Prepared WholePlanes(bool max, const Dims& in) {
  const int64_t planes = in[0] * in[1],
                n = std::max<int64_t>(NumElements(in) / std::max<int64_t>(planes, 1), 1);
  const simd::Loops& loops = simd::TheLoops();
  Prepared p;
  p.name = Cat("own:planes:", loops.isa);
  p.launch = LaunchOf([=, &loops](std::byte* const* args) {
    const auto* const x = As<float>(static_cast<const std::byte*>(args[0]));
    float* const y = As<float>(args[1]);
    ForRange(planes, std::max<int64_t>(1, kElementGrain / 4 / n),
             [=, &loops](int64_t i, int64_t end) {
               for (; i < end; ++i)
                 y[i] = max ? loops.max(x + i * n, n)
                            : static_cast<float>(loops.sum(x + i * n, n) / static_cast<double>(n));
             });
  });
  return p;
}

/// The windows of a pooling with its padding resolved, also where they are whole images.
Result<Window> WindowOf(const Node& node, const Dims& in) {
  if (in.size() < 3 || in.size() > 5) return Unsupported("only 1 to 3 spatial dimensions");
  const Dims extents(in.begin() + 2, in.end());
  if (!node.Is("GlobalAveragePool") && !node.Is("GlobalMaxPool")) {
    INFER_ASSIGN(const Window w,
                 ReadWindow(node.def(), node.attrs(), static_cast<int>(extents.size())));
    return ResolvePads(w, extents);
  }
  Window w;
  for (const int64_t extent : extents) w.axes.push_back({.kernel = extent});
  return w;
}

/// true: one window without padding, the whole image.
bool IsWhole(const Window& window, const Dims& in) {
  for (size_t i = 0; i < window.axes.size(); ++i) {
    const WindowAxis& w = window.axes[i];
    if (w.kernel != in[i + 2] || w.dilation != 1 || w.pad_begin != 0 || w.pad_end != 0)
      return false;
  }
  return true;
}

PlanePool::Kind PlaneKindOf(const Node& node) {
  if (node.Is("MaxPool") || node.Is("GlobalMaxPool")) return PlanePool::Kind::kMax;
  return node.Is("AveragePool") && node.Attr<int64_t>("count_include_pad") != 0
             ? PlanePool::Kind::kAverageWithPadding
             : PlanePool::Kind::kAverage;
}

Result<Prepared> PreparePlanes(const Node& node, const Dims& in, const Dims& out) {
  INFER_ASSIGN(const Window window, WindowOf(node, in));
  if (node.Is("AveragePool") && IsWhole(window, in)) return WholePlanes(false, in);
  INFER_ASSIGN(PlanePool pool, PlanePool::Of(PlaneKindOf(node), window, in, out));
  Prepared p;
  p.name = Cat("own:planes:", simd::TheLoops().isa);
  p.in_layouts = {Layout()};
  p.out_layouts = {Layout()};
  p.launch = LaunchOf([pool = std::move(pool)](std::byte* const* args) {
    pool.Run(As<float>(args[0]), As<float>(args[1]));
  });
  return p;
}

/// Operands that the kernel of planes takes.
enum class From : uint8_t { kPlain, kAny };

template <From kFrom>
std::unique_ptr<Kernel> MakePlanePool(const StepCall& call) {
  const Node& node = call.main();
  return KernelOf(
      [&node](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        if (kFrom == From::kPlain && !in[0].layout.plain())
          return Unsupported("its operand lies in blocks of channels");
        return PreparePlanes(node, in[0].dims, out[0].dims);
      });
}

std::unique_ptr<Kernel> MakeWholePlanes(const StepCall& call) {
  const bool max = call.main().Is("GlobalMaxPool");
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    if (!in[0].layout.plain()) return Unsupported("its operand lies in blocks of channels");
    return WholePlanes(max, in[0].dims);
  });
}

std::string RefusePlaces(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  return ElementTypeOf(call.main().input(0)) == DType::kF32 ? "" : "not f32";
}

/// MaxPool whose second result, where the maxima stand, is wanted.
std::unique_ptr<Kernel> MakePlaces(const StepCall& call) {
  const Node& node = call.main();
  return KernelOf(
      [&node, y = ResultOf(call, 0), places = ResultOf(call, 1)](
          std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        INFER_ASSIGN(const Pooling pooling, Pooling::Of(node, in[0], out[0]));
        PlanePlaces pool;
        pool.planes = in[0].dims[0] * in[0].dims[1];
        pool.axes = AxesOf(pooling.windows, in[0].dims, out[0].dims);
        pool.column_major = node.Attr<int64_t>("storage_order") != 0;
        if (!pool.fits()) return Unsupported("places beyond 32 bits");
        Prepared p;
        p.name = Cat("own:places:", simd::TheLoops().isa);
        p.launch = LaunchOf([pool, y, places](std::byte* const* args) {
          pool.Run(As<float>(args[0]), y < 0 ? nullptr : As<float>(args[1 + y]),
                   places < 0 ? nullptr : As<int64_t>(args[1 + places]));
        });
        return p;
      });
}

/// The kernels of one operator, the best first.
void AddPool(const char* op, KernelList& list) {
  list.push_back({op, "", "planes", RefusePool, MakePlanePool<From::kPlain>});
  list.push_back({op, "", "onednn", RefusePool, MakeOneDnnPool<Loops::kOfVectors>});
  list.push_back({op, "", "planes-reordered", RefusePool, MakePlanePool<From::kAny>});
  list.push_back({op, "", "onednn-loops", RefusePool, MakeOneDnnPool<Loops::kAny>});
}

}  // namespace

KernelList PoolKernels() {
  KernelList list;
  AddPool("MaxPool", list);
  AddPool("AveragePool", list);
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool"}) {
    list.push_back({op, "", "own", RefusePool, MakeWholePlanes});
    AddPool(op, list);
  }
  list.push_back({"MaxPool", "", "places", RefusePlaces, MakePlaces});
  return list;
}

}  // namespace infer
