/// What inference refuses, so that no backend has to: attributes and shapes that the reference
/// kernel alone would look at.
#include "tests/lib/ops/graph_values.h"

namespace infer {
namespace {

TEST(RefusedEarly, Attributes) {
  CheckTypes({
      {"graph g(x: f32[2,3]) -> (y) { y = Cast(x) {to=7, round_mode=\"none\"} }",
       "unknown round_mode 'none'"},
      {"graph g(x: f32[2,3], t: i64[1]) -> (y) { y = CastLike(x, t) {round_mode=\"\"} }",
       "unknown round_mode ''"},
      {"graph g(q: f32[1,2,3,4]) -> (y) { y = Attention(q, q, q) {qk_matmul_output_mode=4} }",
       "qk_matmul_output_mode is 4"},
      {"graph g(x: f32[5,2,3], w: f32[1,4,3], r: f32[1,4,4]) -> (y) { y = RNN(x, w, r) "
       "{activations=[\"stretch\"]} }",
       "activation 'stretch' is not known"},
      {"graph g(x: f32[5,2,3], w: f32[1,16,3], r: f32[1,16,4]) -> (y) { y = LSTM(x, w, r) "
       "{activations=[\"Tanh\"]} }",
       "activations has 1 names, wants 3"},
  });
}

TEST(RefusedEarly, Shapes) {
  CheckTypes({
      {"graph g(i: i64[2], d: i64[], v: f32[0]) -> (y) { y = OneHot(i, d, v) }",
       "values are not [off, on]"},
      {"graph g(t: f32[2,2,16], s: i64[4]) -> (y) { y = AffineGrid(t, s) }",
       "theta [2,2,16] does not fit"},
      {"graph g(x: f32[5,4], s: i64[7]) -> (y) { y = CenterCropPad(x, s) }",
       "shape has 7 entries for 2 axes"},
      {"graph g(s: i64[2,2]) -> (y) { y = ConstantOfShape(s) }",
       "the shape is a tensor of rank 2, not a list"},
  });
}

TEST(RefusedEarly, ElementTypes) {
  CheckTypes({
      {"graph g(x: f32[2,3], y: f16[3,2]) -> (z) { z = Einsum(x, y) {equation=\"ij,jk->ik\"} }",
       "input 'Inputs' is f16, but T is f32"},
      {"graph g(q: bf16[2,1,8], k: bf16[2,1,4], p: f32[2,1,3,4], l: i32[2], t: i32[]) -> (y) { y = "
       "com.microsoft::GroupQueryAttention(q, k, k, p, p, l, t) {kv_num_heads=1, num_heads=2} }",
       "a cache of f32 for queries of bf16"},
  });
}

/// Numbers were read from them for ever.
TEST(RefusedEarly, TensorAttributesOfStrings) {
  CheckTypes({
      {"graph g(x: f32[3,2]) -> (y) { y = ai.onnx.ml::TreeEnsemble(x) {n_targets=1, "
       "nodes_modes=const u8[1] {0}, nodes_splits=const str[1] {\"a\"}, nodes_featureids=[0], "
       "nodes_truenodeids=[0], nodes_falsenodeids=[0], nodes_trueleafs=[1], nodes_falseleafs=[1], "
       "leaf_targetids=[0], leaf_weights=const f32[1] {1}, tree_roots=[0]} }",
       "attribute 'nodes_splits' is str, wants numbers"},
      {"graph g(x: f32[3,2]) -> (y) { y = ai.onnx.ml::TreeEnsembleRegressor(x) {n_targets=1, "
       "nodes_values_as_tensor=const str[1] {\"a\"}} }",
       "attribute 'nodes_values_as_tensor' is str, wants numbers"},
  });
}

/// No channels split into any number of groups, which are not visited one by one.
TEST(RefusedEarly, NotTheGroupsOfNoChannels) {
  const Tensor x(DType::kF32, {2, 0, 3}), none(DType::kF32, {0});
  const OpResult got =
      RunOp("GroupNormalization", {{"num_groups", int64_t{1} << 60}}, {x, none, none});
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  EXPECT_EQ(got.y().dims(), (Dims{2, 0, 3}));
}

}  // namespace
}  // namespace infer
