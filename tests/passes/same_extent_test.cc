#include "passes/rewrite/same_extent.h"

#include <gtest/gtest.h>

#include "tests/passes/graphs.h"

namespace infer {
namespace {

bool Same(const Graph& g, std::string_view a, int i, std::string_view b, int j) {
  return SameExtent(*g.FindValue(a), i, *g.FindValue(b), j);
}
bool Fits(const Graph& g, std::string_view a, int i, std::string_view b, int j) {
  return FitsExtent(*g.FindValue(a), i, *g.FindValue(b), j);
}

/// Keys and values of a decoder whose tokens are as many as nobody says.
Graph Projections() {
  return Parsed(R"(graph g(x: f32[2,?,8], y: f32[2,?,8], p: f32[2,2,P,4], r: f32[2,2,R,4])
    -> (k2, v2, o2, w2, q2) {
    wk = const f32[8,8] ~1  wv = const f32[8,16] ~2  bias = const f32[8] ~3
    to = const i64[4] {0, -1, 2, 4}  wide = const i64[4] {0, -1, 4, 4}
    k = MatMul(x, wk)  kb = Add(k, bias)  kr = Reshape(kb, to)
    kt = Transpose(kr) {perm=[0,2,1,3]}  k2 = Concat(p, kt) {axis=2}
    v = MatMul(x, wk)  vr = Reshape(v, to)  vt = Transpose(vr) {perm=[0,2,1,3]}
    v2 = Concat(p, vt) {axis=-2}
    o = MatMul(y, wk)  or = Reshape(o, to)  ot = Transpose(or) {perm=[0,2,1,3]}
    o2 = Concat(p, ot) {axis=2}
    w2 = Concat(r, vt) {axis=2}
    q = MatMul(x, wv)  q2 = Reshape(q, to)
  })");
}

TEST(SameExtent, OfWhatIsMadeAlike) {
  const Graph g = Projections();
  EXPECT_TRUE(Same(g, "k", 1, "v", 1));
  EXPECT_TRUE(Same(g, "kt", 2, "vt", -2));
  EXPECT_TRUE(Same(g, "k2", 2, "v2", 2));
  EXPECT_TRUE(Same(g, "kr", 1, "x", 1)) << "8 numbers become 2 x 4";
}

TEST(SameExtent, NotOfOtherSources) {
  const Graph g = Projections();
  EXPECT_FALSE(Same(g, "k", 1, "o", 1)) << "two unknown extents";
  EXPECT_FALSE(Same(g, "k2", 2, "o2", 2));
  EXPECT_FALSE(Same(g, "v2", 2, "w2", 2)) << "other caches";
  EXPECT_FALSE(Same(g, "q2", 1, "x", 1)) << "16 numbers become two rows of 2 x 4";
  EXPECT_FALSE(Same(g, "k", 1, "k", 3)) << "no such axis";
}

TEST(SameExtent, BehindTargetsThatAreComputed) {
  const Graph g = Parsed(R"(graph g(x: f32[2,?,8], y: f32[2,?,8]) -> (r, t, s) {
    rows = const i64[2] {-1, 8}  one = const i64[1] {1}  zero = const i64[] {0}  i = const i64[] {1}
    two = const i64[1] {2}  eight = const i64[1] {8}
    f = Reshape(x, rows)  h = Shape(x)  n = Gather(h, i)
    z = const i64[1] {0}  m1 = Unsqueeze(n, z)  c = Concat(two, m1, eight) {axis=0}
    r = Reshape(f, c)
    s1 = Slice(h, one, two)  d = Concat(two, s1, eight) {axis=0}  t = Reshape(f, d)
    e = Shape(y)  s2 = Slice(e, one, two)  u = Concat(two, s2, eight) {axis=0}  s = Reshape(f, u)
  })");
  EXPECT_TRUE(Same(g, "r", 1, "x", 1));
  EXPECT_TRUE(Same(g, "t", 1, "r", 1));
  EXPECT_FALSE(Same(g, "s", 1, "r", 1));
}

/// An axis as long as one operand of a broadcast repeats nothing of the result.
TEST(FitsExtent, OfPartsOfABroadcast) {
  const Graph g = Parsed(R"(graph g(t: f32[2,S,8], p: f32[2,?,8], m: f32[2,S,1], n: f32[2,?,1],
    u: f32[2,1,1]) -> (y, a, b) { h = Add(t, p)  y = Neg(h)  a = Mul(m, u)  b = Add(m, n) })");
  EXPECT_TRUE(Fits(g, "m", 1, "y", 1));
  EXPECT_TRUE(Fits(g, "a", 1, "y", 1));
  EXPECT_TRUE(Fits(g, "u", 1, "y", 1));
  EXPECT_TRUE(Fits(g, "p", 1, "y", 1));
  EXPECT_FALSE(Fits(g, "n", 1, "y", 1));
  EXPECT_FALSE(Fits(g, "b", 1, "y", 1)) << "as long as n, where m is 1";
  EXPECT_FALSE(Fits(g, "y", 1, "m", 1)) << "longer where the tokens are one";
}

}  // namespace
}  // namespace infer
