/// Pooling over up to three spatial axes, linear resizing of as many, and GridSample of two.
#include <algorithm>

#include "lib/ops/conv/conv_geometry.h"
#include "lib/ops/move/grid_sampler.h"
#include "runtime/vulkan/kernels/kernels.h"

namespace infer::vulkan {
namespace {

std::string RefusePool(const StepCall& call, const DeviceFacts&) {
  if (call.main().output(1)) return "the indices are wanted";
  return RefuseUnlessPlainF32(call);
}

/// Windows of the three axes that the shader knows; missing ones come first.
struct Windows {
  Dims in, out, kernel, step, pad, pad_end;
};

Result<Prepared> Add(const Facts& facts, std::span<const Operand> in, std::span<const Operand> out,
                     const Windows& w, bool average, bool counts_padding) {
  const int64_t n = NumElements(out[0].dims);
  Push push;
  push.U(n).List(w.in, 3, 1).List(w.out, 3, 1).List(w.kernel, 3, 1).List(w.step, 3, 1 | 1 << 16);
  push.List(w.pad, 3, 0).List(w.pad_end, 3, 0);
  LaunchBuilder b(facts, in, out);
  b.Iterations(3 * NumElements(w.kernel) + kFewRounds);
  b.DispatchElements("pool", {average, counts_padding}, {b.Read(0), b.Write()}, push, n, 64);
  return b.Finish("pool");
}

std::unique_ptr<Kernel> MakePool(const StepCall& call, const Facts& facts) {
  const Node& node = call.main();
  return KernelOf([&node, facts](std::span<const Operand> in,
                                 std::span<const Operand> out) -> Result<Prepared> {
    const Dims &x = in[0].dims, &y = out[0].dims;
    if (x.size() < 3 || x.size() > 5) return Unsupported("not one to three spatial axes");
    INFER_ASSIGN(Window window,
                 ReadWindow(node.def(), node.attrs(), static_cast<int>(x.size()) - 2));
    window = ResolvePads(std::move(window), Dims(x.begin() + 2, x.end()));
    Windows w;
    w.in.assign(x.begin() + 2, x.end());
    w.out.assign(y.begin() + 2, y.end());
    for (const WindowAxis& a : window.axes) {
      if (a.stride > 0x7fff || a.dilation > 0x7fff) return Unsupported("so large a step");
      w.kernel.push_back(a.kernel);
      w.step.push_back(a.stride | a.dilation << 16);
      w.pad.push_back(a.pad_begin);
      w.pad_end.push_back(a.pad_end);
    }
    const bool average = node.Is("AveragePool");
    return Add(facts, in, out, w, average, average && node.Attr<int64_t>("count_include_pad") != 0);
  });
}

std::string RefuseResize(const StepCall& call, const DeviceFacts&) {
  const Node& n = call.main();
  if (std::string r = RefuseEpilogue(call); !r.empty()) return r;
  if (!IsF32(n.input(0)) || call.operand(n.input(0)) != 0) return "the operand is not f32";
  const auto& coordinates = n.Attr<std::string>("coordinate_transformation_mode");
  if (n.Attr<std::string>("mode") != "linear") return "it is not linear";
  if (n.Attr<int64_t>("antialias") != 0) return "antialias";
  if (n.Attr<int64_t>("exclude_outside") != 0) return "exclude_outside";
  if (coordinates == "tf_crop_and_resize" || coordinates == "half_pixel_symmetric")
    return coordinates;
  return "";
}

/// Position in the operand of output o: o * scale + offset (ONNX's Resize,
/// coordinate_transformation_mode).
struct Positions {
  double scale = 1, offset = 0;
};
Positions PositionsOf(std::string_view mode, int64_t in, int64_t out, double factor) {
  // The asked length, which need not be whole.
  const double length = factor * static_cast<double>(in);
  if (mode == "align_corners")
    return {length == 1 ? 0 : static_cast<double>(in - 1) / (length - 1), 0};
  if (mode == "asymmetric") return {1 / factor, 0};
  if (mode == "pytorch_half_pixel" && out == 1) return {0, 0};
  return {1 / factor, 0.5 / factor - 0.5};
}

std::unique_ptr<Kernel> MakeResize(const StepCall& call, const Facts& facts) {
  const Node& node = call.main();
  const int scales = call.operand(node.input(2));
  std::vector<int64_t> axes;
  if (node.attrs().contains("axes")) axes = node.Attr<std::vector<int64_t>>("axes");
  return KernelOf([&node, facts, scales, axes](std::span<const Operand> in,
                                               std::span<const Operand> out) -> Result<Prepared> {
    const Dims &x = in[0].dims, &y = out[0].dims;
    const Tensor* given = scales >= 0 ? in[static_cast<size_t>(scales)].constant : nullptr;
    if (scales >= 0 && !given) return Unsupported("the scales are not known before the run");
    if (given && given->num_elements() == 0) given = nullptr;
    if (!axes.empty()) return Unsupported("it names its axes");
    const size_t first = x.size() > 3 ? x.size() - 3 : 0;
    for (size_t d = 0; d < first; ++d)
      if (x[d] != y[d]) return Unsupported("more than three axes change");
    Dims from(x.begin() + static_cast<int64_t>(first), x.end()),
        to(y.begin() + static_cast<int64_t>(first), y.end());
    const auto& mode = node.Attr<std::string>("coordinate_transformation_mode");
    std::vector<Positions> at(3 - from.size());
    for (size_t d = 0; d < from.size(); ++d) {
      const double factor = given ? given->At(static_cast<int64_t>(first + d))
                                  : static_cast<double>(to[d]) / static_cast<double>(from[d]);
      const bool same = from[d] == to[d] && factor == 1;
      at.push_back(same ? Positions() : PositionsOf(mode, from[d], to[d], factor));
    }
    const int64_t n = NumElements(y);
    Push push;
    push.U(n).List(from, 3, 1).List(to, 3, 1);
    for (const Positions& p : at) push.F(static_cast<float>(p.scale));
    for (const Positions& p : at) push.F(static_cast<float>(p.offset));
    push.U(0);
    LaunchBuilder b(facts, in, out);
    b.DispatchElements("resize", {}, {b.Read(0), b.Write()}, push, n, 64);
    return b.Finish("resize");
  });
}

/// Extents from which shaders/grid_sample.comp would no longer find positions exactly.
constexpr int64_t kMostGridExtent = 4096;

std::string RefuseGridSample(const StepCall& call, const DeviceFacts&) {
  return RefuseUnlessPlainF32(call);
}

std::unique_ptr<Kernel> MakeGridSample(const StepCall& call, const Facts& facts) {
  const Node& node = call.main();
  return KernelOf([&node, facts](std::span<const Operand> in,
                                 std::span<const Operand> out) -> Result<Prepared> {
    const Dims &x = in[0].dims, &y = out[0].dims;
    if (x.size() != 4) return Unsupported("not two spatial axes");
    if (in[1].dims != Dims{x[0], y[2], y[3], 2}) return Unsupported("no grid of such images");
    if (x[2] < 1 || x[3] < 1) return Unsupported("nothing to read");
    if (std::max(x[2], x[3]) >= kMostGridExtent) return Unsupported("so large an extent");
    const bool align = node.Attr<int64_t>("align_corners") != 0;
    INFER_ASSIGN(const GridSampler sampler,
                 GridSampler::Of(node.Attr<std::string>("mode"),
                                 node.Attr<std::string>("padding_mode"), align));
    const int64_t n = NumElements(y);
    Push push;
    push.U(n).U(y[1]).U(y[2] * y[3]).U(x[2]).U(x[3]).U(sampler.points());
    push.U(static_cast<int64_t>(sampler.padding())).U(align ? 1 : 0);
    LaunchBuilder b(facts, in, out);
    b.DispatchElements("grid_sample", {}, {b.Read(0), b.Read(1), b.Write()}, push, n, 64);
    return b.Finish("grid_sample");
  });
}

}  // namespace

KernelList PoolKernels(const Facts& facts) {
  return {Def(facts, "MaxPool", "", "pool", RefusePool, MakePool),
          Def(facts, "AveragePool", "", "pool", RefusePool, MakePool),
          Def(facts, "Resize", "", "resize", RefuseResize, MakeResize),
          Def(facts, "GridSample", "", "grid_sample", RefuseGridSample, MakeGridSample)};
}

}  // namespace infer::vulkan
