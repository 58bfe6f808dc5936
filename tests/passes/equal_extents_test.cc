#include <gmock/gmock.h>

#include "passes/pass/pipeline.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

std::string ShapeAfter(std::string_view text, std::string_view value) {
  Graph g = Parsed(std::string(text));
  EXPECT_TRUE(Optimize(g, {.level = kSimplifyLevel}).ok());
  return g.FindValue(value)->shape().ToString();
}

/// Keys and values with lengths of their own, which the second product needs to be equal.
TEST(EqualExtents, TheDepthOfAProductIsOneExtent) {
  constexpr const char* text = R"(graph g(q: f32[N,S,4], k: f32[N,P,4], v: f32[N,R,4],
    x: f32[N,S,4]) -> (y, w) { t = Concat(k, x) {axis=1}  w = Concat(v, x) {axis=1}
    u = Transpose(t) {perm=[0,2,1]}  s = MatMul(q, u)  p = Softmax(s)  y = MatMul(p, w) })";
  EXPECT_EQ(ShapeAfter(text, "v"), ShapeAfter(text, "k"));
  EXPECT_EQ(ShapeAfter(text, "w"), "[N,P+S,4]");
}

/// Symbols that stand for expressions of the extent follow.
TEST(EqualExtents, ExpressionsOfAnExtentFollow) {
  constexpr const char* text = R"(graph g(p: f32[N,S,P], v: f32[N,R,4]) -> (y, h, n) {
    zero = const i64[1] {0}  end = const i64[1] {9223372036854775807}  one = const i64[1] {1}
    two = const i64[1] {2}  h = Slice(v, zero, end, one, two)  y = MatMul(p, v)
    n = Shape(h) {start=1, end=2} })";
  EXPECT_EQ(ShapeAfter(text, "v"), "[N,P,4]");
  EXPECT_EQ(ShapeAfter(text, "h"), "[N,floor((P+1)/2),4]");
}

TEST(EqualExtents, BodiesReadTheOneName) {
  constexpr const char* text = R"(graph g(c: bool[], p: f32[N,S,P], v: f32[N,R,4]) -> (y, z) {
    y = MatMul(p, v)
    z = If(c) [v] {then_branch=graph(a) -> (b) { b = Neg(a) },
                   else_branch=graph(a) -> (b) { b = Abs(a) }} })";
  EXPECT_EQ(ShapeAfter(text, "z"), "[N,P,4]");
}

/// Each input of a decoder by TorchScript names its batch by itself (dynamic_axes as lists).
TEST(EqualExtents, WhatIsJoinedIsAsLargeAlongTheOtherAxes) {
  constexpr const char* text = R"(graph g(k: f32[A,2,P,4], x: f32[B,2,S,4], v: f32[C,2,P,4]) ->
    (t, w) { t = Concat(k, x) {axis=2}  w = Concat(v, x) {axis=-2} })";
  EXPECT_EQ(ShapeAfter(text, "x"), "[A,2,S,4]");
  EXPECT_EQ(ShapeAfter(text, "v"), "[A,2,P,4]");
  EXPECT_EQ(ShapeAfter(text, "t"), "[A,2,P+S,4]");
  // Along the axis itself nothing is said, nor of a sequence of tensors.
  EXPECT_EQ(ShapeAfter("graph g(a: f32[N], b: f32[M]) -> (y) { y = Concat(a, b) {axis=0} }", "b"),
            "[M]");
}

TEST(EqualExtents, WhatIsNotMultipliedOverKeepsItsName) {
  // Sums may broadcast, and batches of products, too.
  EXPECT_EQ(ShapeAfter("graph g(a: f32[A,3], b: f32[B,3]) -> (y) { y = Add(a, b) }", "b"), "[B,3]");
  EXPECT_EQ(ShapeAfter("graph g(a: f32[A,2,3], b: f32[B,3,4]) -> (y) { y = MatMul(a, b) }", "b"),
            "[B,3,4]");
  // A multiple of the other, or a number.
  EXPECT_EQ(ShapeAfter(R"(graph g(a: f32[2,K], b: f32[L,3]) -> (y) {
                            c = Concat(b, b) {axis=0}  y = MatMul(a, c) })",
                       "b"),
            "[L,3]");
  EXPECT_EQ(ShapeAfter("graph g(a: f32[2,5], b: f32[L,3]) -> (y) { y = MatMul(a, b) }", "b"),
            "[L,3]");
}

TEST(EqualExtents, AttentionIsFoundAcrossTheNames) {
  Graph g = Parsed(R"(graph g(q: f32[2,4,S,8], k: f32[2,4,P,8], v: f32[2,4,R,8],
    x: f32[2,4,S,8]) -> (y, t, w) { t = Concat(k, x) {axis=2}  w = Concat(v, x) {axis=2}
    u = Transpose(t) {perm=[0,1,3,2]}  s = MatMul(q, u)  p = Softmax(s)  y = MatMul(p, w) })");
  ASSERT_TRUE(Optimize(g, {}).ok());
  EXPECT_EQ(g.nodes().size(), 1u);
  EXPECT_EQ(g.nodes().front()->op(), "Attention");
}

}  // namespace
}  // namespace infer
