/// Integer kernels around the products: additions, multiplications, tables for anything with one
/// operand, pooling, views; and Q and DQ themselves.
#include <algorithm>
#include <array>
#include <numeric>

#include "lib/ir/roles.h"
#include "lib/ops/common.h"
#include "lib/support/parallel.h"
#include "runtime/cpu/kernels/common/epilogue.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/kernels/int8/byte_binary.h"
#include "runtime/cpu/kernels/int8/byte_mean.h"
#include "runtime/cpu/kernels/int8/byte_pool.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/launch/view.h"
#include "runtime/cpu/simd/look_up.h"
#include "runtime/cpu/simd/loops.h"
#include "runtime/plan_ir/groups/quant_codes.h"

namespace infer {
namespace {

constexpr int64_t kByteGrain = 65536;

std::string OwnName() { return std::string("own:") + simd::TheLoops().isa; }
int64_t Stored(const Operand& o) { return o.layout.plain() ? o.plain_bytes() : o.layout.bytes; }
uint8_t Flip(DType t) { return t == DType::kI8 ? 0x80 : 0; }
int32_t ZeroAmongBytes(const QuantParams8& p) { return p.zero_point() + Flip(p.dtype); }

std::string RefuseBinary8(const StepCall& call) {
  auto g = WholeCodeGroup(call, 2);
  if (!g.ok()) return g.status().message();
  if (g->activations.size() > 1 || (g->activations.size() == 1 && !IsRelu(*g->activations[0])))
    return "an activation other than Relu";
  return "";
}

/// The fastest loop that rounds each of the 65,536 pairs of operands as the exact one does.
simd::Loops::Int8Fn LoopOf(bool add, const simd::Int8Params& params) {
  const simd::Loops& loops = simd::TheLoops();
  const auto exact = add ? loops.exact_add_8 : loops.exact_mul_8;
  std::array<uint8_t, 256> a, b, y, want;
  std::iota(b.begin(), b.end(), uint8_t{0});
  const auto is_exact = [&](simd::Loops::Int8Fn loop) {
    for (const uint8_t value : b) {
      a.fill(value);
      loop(a.data(), b.data(), y.data(), 256, params);
      exact(a.data(), b.data(), want.data(), 256, params);
      if (y != want) return false;
    }
    return true;
  };
  for (const auto loop :
       {add ? loops.add_8 : loops.mul_8, add ? loops.reciprocal_add_8 : loops.reciprocal_mul_8})
    if (is_exact(loop)) return loop;
  return exact;
}

std::unique_ptr<Kernel> MakeBinary8(const StepCall& call) {
  const QuantGroup g = *WholeCodeGroup(call, 2);
  INFER_CHECK(g.output && g.inputs[0] && g.inputs[1]);
  const QuantParams8 &a = g.inputs[0]->params, &b = g.inputs[1]->params, &y = *g.output;
  simd::Int8Params p{Flip(a.dtype),     Flip(b.dtype),     Flip(y.dtype),
                     ZeroAmongBytes(a), ZeroAmongBytes(b), ZeroAmongBytes(y)};
  p.scale_a = a.scale();
  p.scale_b = b.scale();
  p.scale_y = y.scale();
  p.relu = !g.activations.empty();
  const ByteBinary op{LoopOf(call.main().Is(Trait::kSum), p), p, g.inputs[0]->operand,
                      g.inputs[1]->operand};
  return KernelOf([op](std::span<const Operand> in, std::span<const Operand> out) {
    return PrepareByteBinary(op, in, out[0]);
  });
}

std::unique_ptr<Kernel> MakeTable(const StepCall& call) {
  auto table = CodeTableOf(call);
  const int x = call.operand(DecodeQuantGroup(call)->inputs[0]->value);
  return KernelOf([=](std::span<const Operand> in,
                      std::span<const Operand> out) -> Result<Prepared> {
    if (!table.ok()) return table.status();
    const Operand& operand = in[static_cast<size_t>(x)];
    const bool as_is = operand.dtype == out[0].dtype;  // else the layout names another type
    const int64_t n = as_is ? Stored(operand) : operand.plain_bytes();
    Prepared p;
    p.name = "own:table";
    p.in_place = true;
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x)] = false;
    p.in_layouts.resize(in.size());
    if (as_is) {
      p.in_layouts[static_cast<size_t>(x)] = operand.layout;
      p.out_layouts = {operand.layout};
    }
    const size_t y = in.size();
    p.launch = LaunchOf([=, look_up = simd::TheLookUp(), t = *table](std::byte* const* args) {
      ParallelFor(n, kByteGrain, [&](int64_t begin, int64_t end) {
        look_up(As<uint8_t>(args[x]) + begin, As<uint8_t>(args[y]) + begin, end - begin, t.data());
      });
    });
    return p;
  });
}

std::string RefuseView8(const StepCall& call) {
  std::string r = RefuseSameCodes(call);
  if (r.empty() && call.operand(DecodeQuantGroup(call)->inputs[0]->value) != 0)
    r = "the operand is not the first";
  return r;
}

std::unique_ptr<Kernel> MakeMaxPool8(const StepCall& call) {
  const Node& node = call.main();
  const int x = call.operand(DecodeQuantGroup(call)->inputs[0]->value);
  return KernelOf([&node, x](std::span<const Operand> in,
                             std::span<const Operand> out) -> Result<Prepared> {
    const Operand& operand = in[static_cast<size_t>(x)];
    if (operand.dims.size() < 3 || operand.dims.size() > 5) return Unsupported("rank");
    INFER_ASSIGN(const Spatial s, SpatialOf(node, {}, operand.dims, out[0].dims, false));
    for (size_t i = 0; i < s.kernel.size(); ++i)
      if (s.dilations[i] != 1 || s.pads_begin[i] >= s.kernel[i] || s.pads_end[i] >= s.kernel[i])
        return Unsupported("dilation, or a window in the padding");
    // On rows of pixels oneDNN would run its plain reference code.
    const Layout layout =
        operand.layout.plain() ? onednn::ChannelsLast(operand.dtype, operand.dims) : operand.layout;
    const onednn::PoolSpec spec{{operand.dtype, operand.dims, layout},
                                {out[0].dtype, out[0].dims, {}, {}, true},
                                s.kernel,
                                s.strides,
                                s.pads_begin,
                                s.pads_end};
    INFER_ASSIGN(const onednn::Made made, onednn::MakePool(spec));
    Prepared p;
    p.name = made.name;
    p.scratch_bytes = made.scratch_bytes;
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x)] = false;
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x)] = layout;
    p.out_layouts = {made.dst};
    const int n = static_cast<int>(in.size());
    p.launch = MakeLaunch(made, {{onednn::Arg::kSrc, x}, {onednn::Arg::kDst, n}}, n + 1);
    return p;
  });
}

std::string RefuseMean8(const StepCall& call) {
  auto g = WholeCodeGroup(call, 1);
  if (!g.ok()) return g.status().message();
  return g->activations.empty() ? "" : "an activation follows";
}

/// The mean of each channel of an image, [rows][channels] or, `planes`, [channels][rows].
struct Mean8 {
  ByteMean mean;
  int64_t rows, channels;
  bool planes;

  void Image(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const {
    const simd::ByteSums& add = simd::TheByteSums();
    for (int64_t c = begin; c < end; c += ByteMean::kTile) {
      const int64_t n = std::min(ByteMean::kTile, end - c);
      const std::byte* const first = from + c * (planes ? rows : 1);
      const int64_t next = planes ? rows : 1, step = planes ? 1 : channels;
      uint32_t sums[ByteMean::kTile] = {};
      if (planes)
        for (int64_t i = 0; i < n; ++i)
          sums[i] = add.row(As<uint8_t>(first + i * rows), rows, mean.flip());
      else
        add.columns(As<uint8_t>(first), rows, channels, n, mean.flip(), sums);
      mean.Write(sums, n, rows, rows, to + c, [&](int64_t i) {
        double sum = 0;
        for (int64_t r = 0; r < rows; ++r) sum += mean.Real(first[i * next + r * step]);
        return sum;
      });
    }
  }
};

ByteScale ScaleOf(const QuantParams8& p) { return {p.dtype, p.scale(), p.zero_point()}; }

std::unique_ptr<Kernel> MakeAveragePool8(const StepCall& call) {
  const Node& n = call.main();
  const QuantGroup g = *WholeCodeGroup(call, 1);
  INFER_CHECK(g.output && g.inputs[0]);
  const QuantParams8 &x = g.inputs[0]->params, &y = *g.output;
  ByteAverage average;
  average.from = ScaleOf(x);
  average.to = ScaleOf(y);
  average.x = g.inputs[0]->operand;
  return KernelOf([average, &n](std::span<const Operand> in, std::span<const Operand> out) {
    return PrepareByteAverage(average, n, in, out[0]);
  });
}

/// Over channels last, in which integer convolutions give their results, or over planes as they
/// come.
std::unique_ptr<Kernel> MakeGlobalPool8(const StepCall& call) {
  const QuantGroup g = *WholeCodeGroup(call, 1);
  INFER_CHECK(g.output && g.inputs[0]);
  const QuantParams8 x = g.inputs[0]->params, y = *g.output;
  const int at = g.inputs[0]->operand;
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[static_cast<size_t>(at)].dims;
    if (dims.size() < 3 || dims.size() > 5) return Unsupported("rank");
    const int64_t images = dims[0], channels = dims[1];
    const Operand& operand = in[static_cast<size_t>(at)];
    const bool planes = operand.layout.plain();
    const Mean8 mean{ByteMean(ScaleOf(x), ScaleOf(y), false),
                     NumElements(dims) / (images * channels), channels, planes};
    if (mean.rows >= simd::kByteSumLimit) return Unsupported("an image of over 16 million pixels");
    const size_t result = in.size();
    Prepared p;
    p.name = OwnName();
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(at)] = false;
    p.in_layouts.resize(in.size());
    if (!planes) p.in_layouts[static_cast<size_t>(at)] = onednn::ChannelsLast(x.dtype, dims);
    const int64_t least = planes ? 1 : 64;  // channels of a part: whole lines of the cache
    p.launch = LaunchOf([=](std::byte* const* args) {
      for (int64_t n = 0; n < images; ++n)
        ForRange(channels, std::max(least, kByteGrain / std::max<int64_t>(1, mean.rows)),
                 [&](int64_t begin, int64_t end) {
                   mean.Image(args[at] + n * mean.rows * channels, args[result] + n * channels,
                              begin, end);
                 });
    });
    return p;
  });
}

/// Q and DQ alone: scale and zero point per tensor, constants.
std::string RefuseCodeChange(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const Value *real = NumbersSide(n), *integer = CodesSide(n);
  if (!real || !integer || real->dtype() != DType::kF32) return "not f32";
  if (integer->dtype() != DType::kU8 && integer->dtype() != DType::kI8) return "not 8 bits";
  const Tensor* scale = call.constant(n.input(1));
  if (!scale || scale->num_elements() != 1 || scale->dtype() != DType::kF32)
    return "no constant scale per tensor";
  if (n.input(2) && !call.constant(n.input(2))) return "the zero point is not constant";
  return call.operand(n.input(0)) == 0 ? "" : "the operand is not the first";
}

std::unique_ptr<Kernel> MakeCodeChange(const StepCall& call) {
  const Node& n = call.main();
  const bool quantize = n.Is(Trait::kQuantize);
  const bool is_signed = CodesSide(n)->dtype() == DType::kI8;
  const auto scale = static_cast<float>(call.constant(n.input(1))->At(0));
  const auto zero =
      n.input(2) ? static_cast<int32_t>(call.constant(n.input(2))->IntAt(0)) : int32_t{0};
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const int64_t n_elements = NumElements(in[0].dims);
    const simd::Loops& loops = simd::TheLoops();
    const size_t y = in.size();
    Prepared p;
    p.name = OwnName();
    p.unused.assign(in.size(), true);
    p.unused[0] = false;
    p.launch = LaunchOf([=, &loops](std::byte* const* args) {
      ParallelFor((n_elements + 63) / 64, kElementGrain / 64, [&](int64_t u, int64_t v) {
        const int64_t b = u * 64, n = std::min(n_elements, v * 64) - b;
        const std::byte* x = args[0];
        if (quantize && is_signed)
          loops.quantize_s8(As<float>(x) + b, As<int8_t>(args[y]) + b, n, scale, zero);
        else if (quantize)
          loops.quantize_u8(As<float>(x) + b, As<uint8_t>(args[y]) + b, n, scale, zero);
        else if (is_signed)
          loops.dequantize_s8(As<int8_t>(x) + b, As<float>(args[y]) + b, n, scale, zero);
        else
          loops.dequantize_u8(As<uint8_t>(x) + b, As<float>(args[y]) + b, n, scale, zero);
      });
    });
    return p;
  });
}

}  // namespace

KernelList Int8ElementwiseKernels() {
  return {{"Add", "", "int8:own", RefuseBinary8, MakeBinary8},
          {"Mul", "", "int8:own", RefuseBinary8, MakeBinary8},
          {"MaxPool", "", "int8:onednn", RefuseSameCodes, MakeMaxPool8},
          {"AveragePool", "", "int8:own", RefuseMean8, MakeAveragePool8},
          {"GlobalAveragePool", "", "int8:own", RefuseMean8, MakeGlobalPool8},
          {"QuantizeLinear", "", "own", RefuseCodeChange, MakeCodeChange},
          {"DequantizeLinear", "", "own", RefuseCodeChange, MakeCodeChange},
          {"", "", "int8:view", RefuseView8, MakeView, Trait::kView},
          {"", "", "int8:table", RefuseCodeTable, MakeTable, Trait::kUnary}};
}

}  // namespace infer
