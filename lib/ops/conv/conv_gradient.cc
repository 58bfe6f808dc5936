/// The gradient of a convolution's weights, as an operator of our own: as products of standard
/// operators (its decomposition) it copies the operand once for each tap of the kernel.
#include "lib/ops/common.h"
#include "lib/ops/conv/conv_geometry.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// Extents of the weights [M, C / group, k..] of the convolution whose operand is `x` and whose
/// result is like `g`.
Result<Dims> WeightDims(const OpCall& call, const Dims& x, const Dims& g) {
  const int64_t groups = call.Int("group");
  const std::vector<int64_t>& kernel = call.Ints("kernel_shape");
  if (x.size() < 3 || g.size() != x.size() || kernel.size() + 2 != x.size() || groups < 1 ||
      x[1] % groups != 0 || g[1] % groups != 0 || x[0] != g[0])
    return InvalidModel("operand, gradient and kernel_shape do not fit each other");
  Dims w = {g[1], x[1] / groups};
  w.insert(w.end(), kernel.begin(), kernel.end());
  INFER_ASSIGN(const ConvGeometry geometry, ReadConvGeometry(call.def(), call.attrs(), x, w));
  if (geometry.output_dims() != g)
    return InvalidModel(Cat("the gradient is ", ToString(g), ", the convolution's result ",
                            ToString(geometry.output_dims())));
  return w;
}

Status InferWeightGradient(OpCall& call) {
  call.SetOut(0, call.dtype(0), Shape());
  if (!call.shape(0).is_static() || !call.shape(1).is_static()) return {};
  INFER_ASSIGN(Dims w, WeightDims(call, call.shape(0).static_dims(), call.shape(1).static_dims()));
  call.SetOut(0, call.dtype(0), Shape(w));
  return {};
}

/// Where tap `tap` of the kernel reads for each result; -1: padding.
std::vector<int64_t> OffsetsOf(const ConvGeometry& g, int64_t tap) {
  const size_t rank = g.input.size();
  Dims k(rank), o(rank, 0);
  for (size_t d = rank; d-- > 0;) {
    k[d] = tap % g.window.axes[d].kernel;
    tap /= g.window.axes[d].kernel;
  }
  std::vector<int64_t> offsets(static_cast<size_t>(NumElements(g.output)));
  for (int64_t& offset : offsets) {
    for (size_t d = 0; d < rank && offset >= 0; ++d) {
      const WindowAxis& a = g.window.axes[d];
      const int64_t i = o[d] * a.stride + k[d] * a.dilation - a.pad_begin;
      offset = i < 0 || i >= g.input[d] ? -1 : offset * g.input[d] + i;
    }
    for (size_t d = rank; d-- > 0 && ++o[d] == g.output[d];) o[d] = 0;
  }
  return offsets;
}

Status RunWeightGradient(OpRun& run) {
  const Tensor x = run.in(0).Cast(DType::kF64), y = run.in(1).Cast(DType::kF64);
  INFER_ASSIGN(const Dims w, WeightDims(run.call(), x.dims(), y.dims()));
  INFER_ASSIGN(const ConvGeometry g,
               ReadConvGeometry(run.call().def(), run.call().attrs(), x.dims(), w));
  Tensor& out = run.Out(0, run.in(0).dtype(), w);
  const int64_t taps = g.kernel_size(), channels = w[1], rows = w[0] / g.groups;
  const int64_t in = NumElements(g.input), positions = NumElements(g.output);
  const auto from = x.data<double>(), gradient = y.data<double>();
  ParallelFor(taps, 1, [&](int64_t begin, int64_t end) {
    for (int64_t tap = begin; tap < end; ++tap) {
      const std::vector<int64_t> offsets = OffsetsOf(g, tap);
      for (int64_t m = 0; m < w[0]; ++m)
        for (int64_t c = 0; c < channels; ++c) {
          double sum = 0;
          for (int64_t n = 0; n < g.batch; ++n) {
            const double* plane = from.data() + (n * g.in_channels + m / rows * channels + c) * in;
            const double* row = gradient.data() + (n * w[0] + m) * positions;
            for (int64_t p = 0; p < positions; ++p)
              if (const int64_t at = offsets[static_cast<size_t>(p)]; at >= 0)
                sum += plane[at] * row[p];
          }
          out.Set((m * channels + c) * taps + tap, sum);
        }
    }
  });
  return {};
}

Cost CostWeightGradient(const OpCall& call) {
  Cost c = TrafficOf(call);
  if (!call.in(1).is_static() || !call.out(0).is_static()) return c;
  const Dims w = call.out(0).shape.static_dims();
  c.flops = 2 * StaticElements(call.shape(1)) * NumElements(w) / std::max<int64_t>(1, w[0]);
  return c;
}

/// The filters are those of the gradient, the columns channels of the operand, by group.
void WeightGradientAxes(const OpCall& call, AxisLinks& links) {
  LinkContracted(call, 0, 0, 1, 0, links);
  LinkSame(call, 1, 1, 0, 0, links);
  if (!call.out(0).is_static()) return;
  const Dims w = call.out(0).shape.static_dims();
  const int64_t groups = call.Int("group");
  if (w[1] > 1 || groups == 1)
    links.push_back({.labels = w[1], .from = {.axis = 1}, .to = {.axis = 1}});
  if (groups > 1)
    links.push_back({.labels = groups,
                     .from = {.axis = 1, .inner = w[1]},
                     .to = {.axis = 0, .inner = w[0] / groups}});
}

}  // namespace

std::span<const OpDef> ConvGradientOps() {
  static const OpDef ops[] = {{
      .name = "ConvWeightGradient",
      .domain = "infer",
      .doc = "The gradient of a Conv's weights, by its operand and the gradient of its result.",
      .traits = Trait::kContraction,
      .axes = WeightGradientAxes,
      .inputs = {{"X", "T"}, {"dY", "T"}},
      .outputs = {{"dW", "T"}},
      .attrs = {{"dilations", AttrKind::kInts},
                {"group", AttrKind::kInt, int64_t{1}},
                {"kernel_shape", AttrKind::kInts, {}, true},
                {"pads", AttrKind::kInts},
                {"strides", AttrKind::kInts}},
      .constraints = {{"T", kFloats}},
      .tolerance = 1e-4,
      .infer = InferWeightGradient,
      .reference = RunWeightGradient,
      .cost = CostWeightGradient,
      .decompose = DecomposeConvWeightGradient,
      .example = R"(graph g(x: f32[2,4,7,6], d: f32[2,6,4,4]) -> (w) {
        w = infer::ConvWeightGradient(x, d)
          {kernel_shape=[3, 2], group=2, strides=[2, 1], dilations=[1, 2], pads=[1, 0, 1, 0]} })",
  }};
  return ops;
}

}  // namespace infer
