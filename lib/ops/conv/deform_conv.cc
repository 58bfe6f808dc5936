/// DeformConv: a convolution that reads where an operand says (J. Dai et al., "Deformable
/// Convolutional Networks", 2017; X. Zhu et al., "Deformable ConvNets v2", 2018).
/// Letters: N batch, C input channels, M output channels, P positions of the kernel, R spatial
/// rank.
#include <cmath>

#include "lib/ops/common.h"
#include "lib/ops/conv/conv_geometry.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// Extent d of input i is `want`, as far as both are known.
Status CheckExtent(const OpCall& call, size_t i, int d, const Dim& want) {
  if (!call.has_input(i) || !call.shape(i).has_rank()) return {};
  if (Meet(call.shape(i)[d], want).ok()) return {};
  return InvalidModel(Cat("'", call.def().inputs[i].name, "' is ", call.shape(i).ToString(),
                          ", wants ", want.ToString(), " as extent ", d));
}

Status InferDeformConv(OpCall& call) {
  INFER_ASSIGN(Shape y, ConvOutputShape(call.def(), call.attrs(), call.shape(0), call.shape(1)));
  const int64_t groups = call.Int("offset_group");
  if (groups < 1) return InvalidModel(Cat("offset_group is ", groups));
  const Shape &x = call.shape(0), &w = call.shape(1);
  if (x.has_rank() && x[1].is_static() && x[1].value() % groups != 0)
    return InvalidModel(Cat(x[1].ToString(), " channels do not make ", groups, " offset groups"));
  if (y.has_rank()) {
    for (size_t i : {2, 4})
      if (call.has_input(i)) INFER_TRY(CheckRank(call, i, y.rank(), y.rank()));
    if (call.has_input(3)) INFER_TRY(CheckRank(call, 3, 1, 1));
    INFER_TRY(CheckExtent(call, 3, 0, y[1]));
    Dim positions = groups;
    for (int d = 2; d < y.rank(); ++d) {
      positions =
          !w.has_rank() || w[d].is_unknown() || positions.is_unknown() ? Dim() : positions * w[d];
      INFER_TRY(CheckExtent(call, 2, d, y[d]));
      INFER_TRY(CheckExtent(call, 4, d, y[d]));
    }
    INFER_TRY(CheckExtent(call, 2, 0, y[0]));
    INFER_TRY(CheckExtent(call, 4, 0, y[0]));
    INFER_TRY(CheckExtent(call, 4, 1, positions));
    if (!positions.is_unknown()) INFER_TRY(CheckExtent(call, 2, 1, positions * Dim(y.rank() - 2)));
  }
  call.SetOut(0, call.dtype(0), std::move(y));
  return {};
}

/// The plane at real coordinates, linearly between its points; 0 outside.
double Sample(const Tensor& x, int64_t plane, const Dims& extents, const std::vector<double>& at) {
  const size_t rank = extents.size();
  double sum = 0;
  for (size_t corner = 0; corner < size_t{1} << rank; ++corner) {
    int64_t offset = 0;
    double weight = 1;
    for (size_t d = 0; d < rank && weight != 0; ++d) {
      const double low = std::floor(at[d]), i = low + static_cast<double>(corner >> d & 1);
      weight *= 1 - std::abs(at[d] - i);
      if (!(i >= 0 && i < static_cast<double>(extents[d]))) weight = 0;
      if (weight != 0) offset = offset * extents[d] + static_cast<int64_t>(i);
    }
    if (weight != 0) sum += weight * x.At(plane + offset);
  }
  return sum;
}

Status RunDeformConv(OpRun& run) {
  const Tensor &x = run.in(0), &w = run.in(1), &offset = run.in(2);
  const Tensor *bias = run.in_or_null(3), *mask = run.in_or_null(4);
  INFER_ASSIGN(const ConvGeometry g,
               ReadConvGeometry(run.call().def(), run.call().attrs(), x.dims(), w.dims()));
  const int64_t positions = g.kernel_size(), outputs = NumElements(g.output);
  const int64_t offset_groups = run.Int("offset_group"), rank = g.window.rank();
  const int64_t plane = NumElements(g.input), channels = g.in_channels;
  const int64_t per_group = channels / g.groups, per_offset = channels / offset_groups;
  const int64_t out_per_group = g.out_channels / g.groups;
  Tensor& y = run.Out(0, x.dtype(), g.output_dims());
  ParallelFor(g.batch * outputs, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> patch(static_cast<size_t>(channels * positions));
    std::vector<double> at(static_cast<size_t>(rank));
    for (int64_t item = begin; item < end; ++item) {
      const int64_t n = item / outputs, o = item % outputs;
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t p = 0; p < positions; ++p) {
          const int64_t moved = (n * offset_groups + c / per_offset) * positions + p;
          int64_t out = o, position = p;
          for (int64_t d = rank - 1; d >= 0; --d) {
            const auto i = static_cast<size_t>(d);
            const WindowAxis& a = g.window.axes[i];
            const int64_t first = out % g.output[i] * a.stride - a.pad_begin;
            at[i] = static_cast<double>(first + position % a.kernel * a.dilation) +
                    offset.At((moved * rank + d) * outputs + o);
            out /= g.output[i];
            position /= a.kernel;
          }
          const double factor = mask ? mask->At(moved * outputs + o) : 1;
          patch[static_cast<size_t>(c * positions + p)] =
              factor * Sample(x, (n * channels + c) * plane, g.input, at);
        }
      for (int64_t m = 0; m < g.out_channels; ++m) {
        const int64_t first = m / out_per_group * per_group * positions;
        double sum = bias ? bias->At(m) : 0;
        for (int64_t k = 0; k < per_group * positions; ++k)
          sum += w.At(m * per_group * positions + k) * patch[static_cast<size_t>(first + k)];
        y.Set((n * g.out_channels + m) * outputs + o, sum);
      }
    }
  });
  return {};
}

/// 2 FLOPs per multiply-add; a sample costs 2 per corner and axis; the mask and the bias one each.
Cost CostDeformConv(const OpCall& call) {
  Cost c = TrafficOf(call);
  if (!call.in(0).is_static() || !call.in(1).is_static()) return c;
  const auto g = ReadConvGeometry(call.def(), call.attrs(), call.shape(0).static_dims(),
                                  call.shape(1).static_dims());
  if (!g.ok()) return c;
  const int64_t rank = g->window.rank();
  const int64_t samples = g->batch * g->in_channels * g->kernel_size() * NumElements(g->output);
  c.flops = 2 * g->macs() + samples * ((int64_t{2} << rank) * rank + (call.has_input(4) ? 1 : 0)) +
            (call.has_input(3) ? NumElements(g->output_dims()) : 0);
  return c;
}

/// Samples of the operand, with their offsets and mask.
void DeformConvAxes(const OpCall& call, AxisLinks& links) {
  for (const size_t in : {0, 2, 4}) LinkSame(call, in, 0, 0, 0, links);
}

}  // namespace

std::span<const OpDef> DeformConvOps() {
  static const OpDef ops[] = {
      {
          .name = "DeformConv",
          .doc = "Convolution whose sampling points are moved by an operand, with a mask.",
          .traits = Trait::kContraction,
          .axes = DeformConvAxes,
          .since = 19,
          .versions = {19, 22},
          .inputs = {{"X", "T"},
                     {"W", "T"},
                     {"offset", "T"},
                     {"B", "T", Arity::kOptional},
                     {"mask", "T", Arity::kOptional}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"dilations", AttrKind::kInts},
                    {"group", AttrKind::kInt, int64_t{1}},
                    {"kernel_shape", AttrKind::kInts},
                    {"offset_group", AttrKind::kInt, int64_t{1}},
                    {"pads", AttrKind::kInts},
                    {"strides", AttrKind::kInts}},
          .constraints = {{"T", kFloatsBF16}},
          .infer = InferDeformConv,
          .reference = RunDeformConv,
          .cost = CostDeformConv,
          .example = R"(graph g(x: f32[1,4,5,6], offset: f32[1,16,4,5], mask: f32[1,8,4,5]) -> (y) {
            w = const f32[6,2,2,2] ~1 b = const f32[6] ~2
            y = DeformConv(x, w, offset, b, mask) {group=2, offset_group=2} })",
      },
  };
  return ops;
}

}  // namespace infer
