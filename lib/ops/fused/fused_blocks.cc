/// Blocks that networks are built from, as operators of our own (domain infer): their meaning is a
/// body in standard operators. Operands are never omitted, so that a body need not branch: a layer
/// without bias gets zeros.
#include <algorithm>

#include "lib/ops/op_def.h"

namespace infer {

namespace {

/// Rows of x and skip are apart from each other; scale and bias lie along the row. What is added
/// before the norm reaches all of it.
void SkipNormAxes(const OpCall& call, AxisLinks& links) {
  const Shape& s = call.shape(0);
  for (int a = 0; s.has_rank() && a + 1 < s.rank(); ++a)
    for (const size_t i : {size_t{0}, size_t{1}}) LinkSame(call, i, a, 0, a, links);
  for (size_t i = 2; i < std::min<size_t>(call.num_inputs(), 4); ++i) LinkBroadcast(call, i, links);
}

void SqueezeExciteAxes(const OpCall& call, AxisLinks& links) { LinkSame(call, 0, 0, 0, 0, links); }

}  // namespace

std::span<const OpDef> FusedBlockOps() {
  const AttrDef epsilon = {"epsilon", AttrKind::kFloat, 1e-5f};
  static const OpDef ops[] = {
      {.name = "SkipLayerNormalization",
       .domain = "infer",
       .doc = "sum = x + skip, y = LayerNormalization of sum's last axis.",
       .traits = Trait::kNormalization,
       .axes = SkipNormAxes,
       .inputs = {{"x", "T"}, {"skip", "T"}, {"scale", "T"}, {"bias", "T"}},
       .outputs = {{"y", "T"}, {"sum", "T", Arity::kOptional}},
       .attrs = {epsilon},
       .constraints = {{"T", kFloatsBF16}},
       .body = R"(graph skip_layer_norm(x, skip, scale, bias) -> (y, sum) {
         sum = Add(x, skip)
         y = LayerNormalization(sum, scale, bias) {epsilon=@epsilon} })",
       .example = R"(graph g(x: f32[2,3], s: f32[2,3]) -> (y, sum) {
         g = const f32[3] ~1  b = const f32[3] ~2
         y, sum = infer::SkipLayerNormalization(x, s, g, b) })"},
      {.name = "SkipBiasLayerNormalization",
       .domain = "infer",
       .doc = "y = LayerNormalization of the last axis of x + added + skip.",
       .traits = Trait::kNormalization,
       .axes = SkipNormAxes,
       .inputs = {{"x", "T"}, {"skip", "T"}, {"scale", "T"}, {"bias", "T"}, {"added", "T"}},
       .outputs = {{"y", "T"}},
       .attrs = {epsilon},
       .constraints = {{"T", kFloatsBF16}},
       .body = R"(graph skip_bias_layer_norm(x, skip, scale, bias, added) -> (y) {
         p = Add(x, added)  sum = Add(p, skip)
         y = LayerNormalization(sum, scale, bias) {epsilon=@epsilon} })",
       .example = R"(graph g(x: f32[2,3], s: f32[2,3]) -> (y) {
         g = const f32[3] ~1  b = const f32[3] ~2  a = const f32[3] ~3
         y = infer::SkipBiasLayerNormalization(x, s, g, b, a) })"},
      {.name = "SkipRMSNormalization",
       .domain = "infer",
       .doc = "sum = x + skip, y = RMSNormalization of sum's last axis.",
       .traits = Trait::kNormalization,
       .axes = SkipNormAxes,
       .inputs = {{"x", "T"}, {"skip", "T"}, {"scale", "T"}},
       .outputs = {{"y", "T"}, {"sum", "T", Arity::kOptional}},
       .attrs = {epsilon},
       .constraints = {{"T", kFloatsBF16}},
       .body = R"(graph skip_rms_norm(x, skip, scale) -> (y, sum) {
         sum = Add(x, skip)
         y = RMSNormalization(sum, scale) {epsilon=@epsilon} })",
       .example = R"(graph g(x: f32[2,3], s: f32[2,3]) -> (y, sum) { g = const f32[3] ~1
         y, sum = infer::SkipRMSNormalization(x, s, g) })"},
      {.name = "SwiGLU",
       .domain = "infer",
       .doc = "y = gate * sigmoid(gate) * up.",
       .traits = Trait::kBlock,
       .axes = BroadcastAxes,
       .inputs = {{"gate", "T"}, {"up", "T"}},
       .outputs = {{"y", "T"}},
       .constraints = {{"T", kFloatsBF16}},
       .body = R"(graph swiglu(gate, up) -> (y) {
         s = infer::Silu(gate)  y = Mul(s, up) })",
       .example = "graph g(a: f32[2,3], b: f32[2,3]) -> (y) { y = infer::SwiGLU(a, b) }"},
      {.name = "GeGLU",
       .domain = "infer",
       .doc = "y = Gelu(gate) * up.",
       .traits = Trait::kBlock,
       .axes = BroadcastAxes,
       .inputs = {{"gate", "T"}, {"up", "T"}},
       .outputs = {{"y", "T"}},
       .attrs = {{"approximate", AttrKind::kString, std::string("none")}},
       .constraints = {{"T", kFloatsBF16}},
       .body = R"(graph geglu(gate, up) -> (y) {
         g = Gelu(gate) {approximate=@approximate}  y = Mul(g, up) })",
       .example = "graph g(a: f32[2,3], b: f32[2,3]) -> (y) { y = infer::GeGLU(a, b) }"},
      {.name = "Mlp",
       .domain = "infer",
       .doc = "y = activation(x w1 + b1) w2 + b2, activation \"Op\" or \"Op {attributes}\".",
       .traits = Trait::kBlock,
       .axes = AllButLastAxis,
       .inputs = {{"x", "T"}, {"w1", "T"}, {"b1", "T"}, {"w2", "T"}, {"b2", "T"}},
       .outputs = {{"y", "T"}},
       .attrs = {{"activation", AttrKind::kString, std::string("Relu")}},
       .constraints = {{"T", kFloatsBF16}},
       .body = R"(graph mlp(x, w1, b1, w2, b2) -> (y) {
         p = MatMul(x, w1)  h = Add(p, b1)  a = @activation(h)
         q = MatMul(a, w2)  y = Add(q, b2) })",
       .example = R"(graph g(x: f32[2,3,4]) -> (y) { w1 = const f32[4,8] ~1  b1 = const f32[8] ~2
         w2 = const f32[8,4] ~3  b2 = const f32[4] ~4
         y = infer::Mlp(x, w1, b1, w2, b2) {activation="Gelu {approximate=\"tanh\"}"} })"},
      {.name = "SqueezeExcite",
       .domain = "infer",
       .doc = "y = x * gate(conv(activation(conv(mean of x by channel)))), 1x1 convolutions.",
       .traits = Trait::kBlock | Trait::kNormalization,
       .axes = SqueezeExciteAxes,
       .inputs = {{"x", "T"}, {"w1", "T"}, {"b1", "T"}, {"w2", "T"}, {"b2", "T"}},
       .outputs = {{"y", "T"}},
       .attrs = {{"activation", AttrKind::kString, std::string("Relu")},
                 {"gate", AttrKind::kString, std::string("Sigmoid")}},
       .constraints = {{"T", kFloats}},
       .body = R"(graph squeeze_excite(x, w1, b1, w2, b2) -> (y) {
         m = GlobalAveragePool(x)  p = Conv(m, w1, b1)  a = @activation(p)
         q = Conv(a, w2, b2)  g = @gate(q)  y = Mul(x, g) })",
       .example = R"(graph g(x: f32[2,4,3,3]) -> (y) { w1 = const f32[2,4,1,1] ~1
         b1 = const f32[2] ~2  w2 = const f32[4,2,1,1] ~3  b2 = const f32[4] ~4
         y = infer::SqueezeExcite(x, w1, b1, w2, b2) {gate="HardSigmoid {alpha=0.166666667}"} })"},
  };
  return ops;
}

}  // namespace infer
