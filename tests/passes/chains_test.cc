// Whole pipelines on what exporters and quantizers write: several rules in turn.
#include <gmock/gmock.h>

#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

/// Optimizes the text; checks the values; "Op Op Op" of what is left, in order.
std::string Left(const std::string& text) {
  auto before = ParseGraph(text, Ops());
  EXPECT_TRUE(before.ok()) << before.status().message();
  Graph after = before->Clone();
  const auto report = Optimize(after);
  EXPECT_TRUE(report.ok()) << report.status().message();
  const auto inputs = RandomInputs(*before, 1);
  const auto a = Evaluate(*before, *inputs), b = Evaluate(after, *inputs);
  EXPECT_TRUE(a.ok() && b.ok()) << a.status().message() << b.status().message();
  for (size_t i = 0; i < a->size(); ++i)
    EXPECT_LE(*RelativeError((*a)[i], (*b)[i]), 1e-5) << Print(after);
  std::vector<std::string> ops;
  for (const auto& n : after.nodes()) ops.emplace_back(n->op());
  return Join(ops, " ");
}

/// YOLO's focus as PyTorch exports it: each cut is two Slices, the first one shared.
TEST(Chains, FocusBecomesSpaceToDepthAndItsOrderGoesIntoTheWeights) {
  EXPECT_EQ(Left(R"(graph g(x: f32[N,3,8,8]) -> (y) { o = const i64[1] {0}  i = const i64[1] {1}
                   e = const i64[1] {9223372036854775807}  h = const i64[1] {2}
                   v = const i64[1] {3}  s = const i64[1] {2}
                   a = Slice(x, o, e, h, s)  b = Slice(x, i, e, h, s)
                   p = Slice(a, o, e, v, s)  q = Slice(b, o, e, v, s)
                   r = Slice(a, i, e, v, s)  t = Slice(b, i, e, v, s)
                   c = Concat(p, q, r, t) {axis=1}  w = const f32[4,12,3,3] ~1
                   y = Conv(c, w) })"),
            "SpaceToDepth Conv");
}

/// Channels last as tf2onnx writes it: each layer between two Transposes.
TEST(Chains, IslandsOfChannelsLastLoseTheirTransposes) {
  EXPECT_EQ(Left(R"(graph g(x: f32[N,8,8,3]) -> (y) { w = const f32[4,3,3,3] ~1
                   v = const f32[4,4,1,1] ~2  k = const f32[4] {1,2,3,4}
                   a = Transpose(x) {perm=[0,3,1,2]}  b = Conv(a, w)
                   c = Transpose(b) {perm=[0,2,3,1]}  d = Add(c, k)  r = Relu(d)
                   e = Transpose(r) {perm=[0,3,1,2]}  f = Conv(e, v)
                   h = Transpose(f) {perm=[0,2,3,1]}  s = Add(h, r)  m = const i64[2] {1,2}
                   y = ReduceMean(s, m) {keepdims=0} })"),
            "Transpose Conv Relu Conv Add ReduceMean");
}

/// What a quantizer leaves: pairs around operators that move elements alone.
TEST(Chains, MovesBetweenQuantizationsRunOnIntegers) {
  EXPECT_EQ(Left(R"(graph g(x: f32[2,4,6]) -> (y) { s = const f32[] {0.05}  z = const u8[] {128}
                   a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
                   c = QuantizeLinear(b, s, z)  d = DequantizeLinear(c, s, z)
                   t = Transpose(d) {perm=[0,2,1]}  e = QuantizeLinear(t, s, z)
                   f = DequantizeLinear(e, s, z)  r = const i64[2] {0,-1}  u = Reshape(f, r)
                   g = QuantizeLinear(u, s, z)  y = DequantizeLinear(g, s, z) })"),
            "QuantizeLinear Transpose Reshape DequantizeLinear");
}

TEST(Chains, ScalesOfTheSummedAxisStayWhereTheyAre) {
  EXPECT_EQ(Left(R"(graph g(x: f32[3,4]) -> (y) { s = const f32[] {0.05}  z = const u8[] {128}
                   w = const i8[4,4] {1,-2,3,4,5,6,-7,8,9,10,11,-12,13,14,15,16}
                   r = const f32[4] {0.1,0.2,0.4,0.8}  o = const i8[4] {0,0,0,0}
                   q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)
                   v = DequantizeLinear(w, r, o) {axis=1}  y = Gemm(a, v) {transB=1} })"),
            "QuantizeLinear DequantizeLinear DequantizeLinear Gemm");
}

TEST(Chains, ShapeArithmeticBecomesConstants) {
  EXPECT_EQ(Left(R"(graph g(x: f32[N,S,64]) -> (y) { s = Shape(x)  i = const i64[] {0}
                   j = const i64[] {1}  a = const i64[1] {0}  n = Gather(s, i)  l = Gather(s, j)
                   h = const i64[] {8}  m = Mul(n, h)  u = Unsqueeze(m, a)  v = Unsqueeze(l, a)
                   k = const i64[1] {8}  t = Concat(u, v, k) {axis=0}  b = Cast(t) {to=6}
                   c = Cast(b) {to=7}  y = Reshape(x, c) })"),
            "Reshape");
}

}  // namespace
}  // namespace infer
