#include "passes/ort/ort.h"

namespace infer {
namespace {

/// Once more: casts between product and sum may have moved behind both.
Rule MatMulAddAgain() {
  Rule again = FuseMatMulAdd();
  again.name = "ort-matmul-add";
  return again;
}

}  // namespace

std::vector<RuleGroup> OrtRules() {
  return {
      {"onnxruntime-sums", {CastBehindF16(), MatMulAddAgain(), FuseSkipBias()}},
      {"onnxruntime-attention", {ExpandMaskRows(), FuseSelfAttention()}},
      {"onnxruntime-products",
       {FuseOperandTranspose(), FuseProductTranspose(), FuseProductScale(), FuseOperandScale()}},
      {"onnxruntime-activations", {FuseConvActivation(), FuseGemmActivation(), FuseBiasGelu()}},
  };
}

Rule TakeApartFused() {
  Pattern fused =
      Op("com.microsoft::FusedConv|com.microsoft::FusedGemm|com.microsoft::FusedMatMul", Any())
          .MoreInputs();
  Pattern attention = Op("com.microsoft::Attention", Any())
                          .MoreInputs()
                          .Where("without a mask index and a past", [](const Value& v) {
                            const Node& n = *v.producer();
                            return !n.input(3) && !n.input(4) && n.outputs().size() == 1;
                          });
  Pattern root = OneOf({fused, attention});
  return {
      .name = "take-apart-fused",
      .doc = "com.microsoft::FusedConv, FusedGemm, FusedMatMul, Attention => what they fuse",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) { return b.PartsOf(m.node(root)); },
      .fires_on = {R"(graph g(x: f32[1,2,5,6], z: f32[1,3,3,4]) -> (y) { w = const f32[3,2,3,3] ~1
             b = const f32[3] ~2  y = com.microsoft::FusedConv(x, w, b, z) {activation="Relu"} })",
                   R"(graph g(x: f32[N,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1
             y = com.microsoft::FusedConv(x, w) {pads=[1,1,1,1], strides=[2,2],
                 activation="Clip", activation_params=[-0.5, 0.25]} })",
                   R"(graph g(x: f32[N,4]) -> (y) { w = const f32[3,4] ~1  c = const f32[3] ~2
             y = com.microsoft::FusedGemm(x, w, c) {transB=1, alpha=0.5, activation="HardSigmoid",
                                                    activation_alpha=0.3, activation_beta=0.4} })",
                   R"(graph g(a: f32[4,2,3,5], b: f32[2,3,6,4]) -> (y) {
             y = com.microsoft::FusedMatMul(a, b) {transBatchA=1, transA=1, transB=1, alpha=0.5}
             })",
                   R"(graph g(x: f32[N,S,4], m: f32[N,1,S,S]) -> (y) { w = const f32[4,12] ~1
             b = const f32[12] ~2
             y = com.microsoft::Attention(x, w, b, _, _, m) {num_heads=2, scale=0.3} })"},
      .silent_on = {{R"(graph g(x: f32[2,3,5]) -> (y) { w = const f32[5,12] ~1
             b = const f32[12] ~2  m = const i32[2] {3, 2}
             y = com.microsoft::Attention(x, w, b, m) {num_heads=2} })",
                     "without a mask index"},
                    {R"(graph g(x: f32[N,4]) -> (y) { w = const f32[4,3] ~1
             y = com.microsoft::FusedGemm(x, w) {activation="ScaledTanh"} })",
                     "is no operator"},
                    {R"(graph g(a: f32[*], b: f32[4,3]) -> (y) {
             y = com.microsoft::FusedMatMul(a, b) {transA=1} })",
                     "the rank of 'A' is not known"}},
  };
}

}  // namespace infer
