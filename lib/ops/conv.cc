/// Conv and ConvTranspose.
#include "lib/ops/common.h"
#include "lib/ops/conv_reference.h"
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
          .has_bias = true};
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
