/// Conv and ConvTranspose.
#include "lib/ops/common.h"
#include "lib/ops/conv/conv_reference.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

template <bool kTransposed>
Status InferConv(OpCall& call) {
  INFER_ASSIGN(Shape y, ConvOutputShape(call.def(), call.attrs(), call.shape(0), call.shape(1),
                                        kTransposed));
  if (call.has_input(2) && call.shape(2).has_rank()) {
    if (call.shape(2).rank() != 1)
      return InvalidModel("the bias is " + call.shape(2).ToString() + ", wants rank 1");
    if (y.has_rank())
      INFER_TRY(Meet(y[1], call.shape(2)[0]).status().In("the bias has not one value per channel"));
  }
  call.SetOut(0, call.dtype(0), std::move(y));
  return {};
}

template <bool kTransposed>
Status RunConv(OpRun& run) {
  INFER_ASSIGN(const ConvGeometry g,
               ReadConvGeometry(run.call().def(), run.call().attrs(), run.in(0).dims(),
                                run.in(1).dims(), kTransposed));
  Tensor& y = run.Out(0, run.in(0).dtype(), g.output_dims());
  const Tensor* bias = run.in_or_null(2);
  const int64_t plane = NumElements(g.output);
  ConvolveReference(g, Widen(run.in(0)), Widen(run.in(1)),
                    [&](int64_t n, int64_t m, int64_t begin, int64_t count, const double* sums) {
                      const double b = bias ? bias->At(m) : 0.0;
                      std::vector<double> v(sums, sums + count);
                      if (bias)
                        for (double& s : v) s += b;
                      StoreRounded(y, (n * g.out_channels + m) * plane + begin, count, v.data());
                    });
  return {};
}

/// 2 FLOPs per multiply-add, one per output for the bias.
template <bool kTransposed>
Cost CostConv(const OpCall& call) {
  Cost c = TrafficOf(call);
  if (!call.in(0).is_static() || !call.in(1).is_static()) return c;
  const auto g = ReadConvGeometry(call.def(), call.attrs(), call.shape(0).static_dims(),
                                  call.shape(1).static_dims(), kTransposed);
  if (g.ok()) c.flops = 2 * g->macs() + (call.has_input(2) ? NumElements(g->output_dims()) : 0);
  return c;
}

/// `more`: the attributes that only this one of the two has.
/// Weights of Conv are [M, C/group, ...], of ConvTranspose [C, M/group, ...].
template <bool kTransposed>
WeightLayout ConvWeights(const OpCall& call) {
  return {.data_axis = 1,
          .in_axis = kTransposed ? 0 : 1,
          .out_axis = kTransposed ? 1 : 0,
          .groups = call.Int("group"),
          .outputs_in_groups = kTransposed,
          .is_window = true,
          .spreads = kTransposed,
          .has_bias = true};
}

/// Every channel of the result has filters of its own; within a group the channels of input and
/// weights meet. Groups are labels of both channel axes.
template <bool kTransposed>
void ConvAxes(const OpCall& call, AxisLinks& links) {
  LinkSame(call, 0, 0, 0, 0, links);
  LinkSame(call, 2, 0, 0, 1, links);
  const Shape &x = call.shape(0), &w = call.shape(1), &y = call.out(0).shape;
  const int64_t groups = call.Int("group");
  if (!w.has_rank() || w.rank() < 2 || !w[0].is_static() || !w[1].is_static() || groups < 1) return;
  if (!x.has_rank() || x.rank() < 2 || !y.has_rank()) return;
  const int64_t rows = w[0].value(), columns = w[1].value();
  const int in = kTransposed ? 0 : 1, out = kTransposed ? 1 : 0;
  const int64_t labels = kTransposed ? rows : columns;
  if (labels > 1 || groups == 1)
    links.push_back({.kind = AxisLink::Kind::kContracted,
                     .labels = labels,
                     .from = {.axis = 1},
                     .to = {.value = 1, .axis = in}});
  links.push_back({.labels = kTransposed ? columns : rows,
                   .from = {.value = 1, .axis = out},
                   .to = {.axis = 1}});
  if (groups > 1 && rows % groups == 0)
    links.push_back({.labels = groups,
                     .from = {.axis = 1, .inner = kTransposed ? rows / groups : columns},
                     .to = {.axis = 1, .inner = kTransposed ? columns : rows / groups}});
}

template <bool kTransposed>
OpDef ConvOp(std::string_view name, std::string_view doc, std::vector<AttrDef> more,
             std::string_view example) {
  std::vector<AttrDef> attrs = {{"auto_pad", AttrKind::kString, std::string("NOTSET")},
                                {"dilations", AttrKind::kInts},
                                {"group", AttrKind::kInt, int64_t{1}},
                                {"kernel_shape", AttrKind::kInts},
                                {"pads", AttrKind::kInts},
                                {"strides", AttrKind::kInts}};
  attrs.insert(attrs.end(), more.begin(), more.end());
  return {.name = name,
          .doc = doc,
          .traits = Trait::kContraction,
          .axes = ConvAxes<kTransposed>,
          .since = 1,
          .versions = {1, 11, 22},
          .inputs = {{"X", "T"}, {"W", "T"}, {"B", "T", Arity::kOptional}},
          .outputs = {{"Y", "T"}},
          .attrs = std::move(attrs),
          .constraints = {{"T", kFloatsBF16}},
          .infer = InferConv<kTransposed>,
          .reference = RunConv<kTransposed>,
          .cost = CostConv<kTransposed>,
          .weights = ConvWeights<kTransposed>,
          .example = example};
}

}  // namespace

std::span<const OpDef> ConvOps() {
  static const OpDef ops[] = {
      ConvOp<false>("Conv",
                    "Convolution over any number of spatial axes, with groups, dilations and pads.",
                    {}, R"(graph g(x: f32[1,4,9,8]) -> (y) {
            w = const f32[6,2,3,3] ~1
            b = const f32[6] ~2
            y = Conv(x, w, b) {group=2, strides=[2, 1], pads=[1, 0, 1, 2], dilations=[1, 2]} })"),
      ConvOp<true>("ConvTranspose",
                   "Transposed convolution: the gradient of Conv with respect to its input.",
                   {{"output_padding", AttrKind::kInts}, {"output_shape", AttrKind::kInts}},
                   R"(graph g(x: f32[1,4,5,6]) -> (y) {
            w = const f32[4,3,3,3] ~1
            y = ConvTranspose(x, w) {strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 0]} })"),
  };
  return ops;
}

}  // namespace infer
