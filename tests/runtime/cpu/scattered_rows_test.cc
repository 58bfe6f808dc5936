/// Which ScatterElements are ScatterND of rows (runtime/cpu/compile/scattered_rows.h); that results
/// stay the same is tests/suites/indices_suite.cc.
#include "runtime/cpu/compile/scattered_rows.h"

#include <gtest/gtest.h>

#include "lib/ir/text.h"
#include "lib/ir/verify.h"
#include "lib/ops/registry.h"

namespace infer {
namespace {

/// How many of `text` are.
int Replaced(std::string_view text) {
  static const OpRegistry ops = AllOps();
  auto g = ParseGraph(text, ops);
  EXPECT_TRUE(g.ok()) << g.status().message();
  const auto replaced = ScatterRows(*g);
  EXPECT_TRUE(replaced.ok()) << replaced.status().message();
  EXPECT_TRUE(Verify(*g).ok());
  int tuples = 0;
  for (const auto& n : g->nodes()) tuples += n->Is("ScatterND") ? 1 : 0;
  EXPECT_EQ(tuples, *replaced);
  return *replaced;
}

TEST(ScatteredRows, RepeatedIndicesOfWholeRows) {
  EXPECT_EQ(Replaced(R"(graph g(x: f32[9,4], u: f32[6,4], i: i64[6]) -> (y) {
      t = const i64[2] {-1, 1} r = Reshape(i, t) s = Shape(u) j = Expand(r, s)
      y = ScatterElements(x, j, u) {reduction="add"} })"),
            1);
  EXPECT_EQ(Replaced(R"(graph g(x: f32[N,2,4], u: f32[E,2,4], i: i64[E,1,1]) -> (y) {
      s = Shape(u) j = Expand(i, s) y = ScatterElements(x, j, u) {reduction="max"} })"),
            1);
}

TEST(ScatteredRows, OthersStay) {
  // Updates of less than a row.
  EXPECT_EQ(Replaced(R"(graph g(x: f32[9,5], u: f32[6,4], i: i64[6,1]) -> (y) {
      s = Shape(u) j = Expand(i, s) y = ScatterElements(x, j, u) })"),
            0);
  // Extents of which it is not known.
  EXPECT_EQ(Replaced(R"(graph g(x: f32[9,F], u: f32[6,4], i: i64[6,1]) -> (y) {
      s = Shape(u) j = Expand(i, s) y = ScatterElements(x, j, u) })"),
            0);
  // Along another axis.
  EXPECT_EQ(Replaced(R"(graph g(x: f32[6,9], u: f32[6,4], i: i64[1,4]) -> (y) {
      s = Shape(u) j = Expand(i, s) y = ScatterElements(x, j, u) {axis=1} })"),
            0);
  // One index for all rows, and one for each element.
  EXPECT_EQ(Replaced(R"(graph g(x: f32[9,4], u: f32[6,4], i: i64[1,1]) -> (y) {
      s = Shape(u) j = Expand(i, s) y = ScatterElements(x, j, u) })"),
            0);
  EXPECT_EQ(Replaced(R"(graph g(x: f32[9,4], u: f32[6,4], i: i64[6,4]) -> (y) {
      s = Shape(u) j = Expand(i, s) y = ScatterElements(x, j, u) })"),
            0);
  // Indices that ScatterND does not take.
  EXPECT_EQ(Replaced(R"(graph g(x: f32[9,4], u: f32[6,4], i: i32[6,1]) -> (y) {
      s = Shape(u) j = Expand(i, s) y = ScatterElements(x, j, u) })"),
            0);
}

}  // namespace
}  // namespace infer
