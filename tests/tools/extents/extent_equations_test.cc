/// Equations between extents, and what solves them.
#include <gmock/gmock.h>

#include "lib/ir/text.h"
#include "lib/support/strings.h"
#include "tests/tools/test_models.h"
#include "tools/common/solve_extents.h"

namespace infer {
namespace {

ExtentSolution Solved(const std::vector<ExtentEquation>& equations,
                      const std::set<std::string>& open, const std::set<std::string>& kept = {},
                      Strictness strictness = Strictness::kBroadcast) {
  return SolveExtents(equations, strictness, open, kept, {});
}

TEST(ExtentEquations, AreSolvedForSums) {
  const Dim past = Dim::Symbol("a_past"), now = Dim::Symbol("now"), total = Dim::Symbol("total");
  const std::set<std::string> open = {"a_past", "now", "total"};
  EXPECT_THAT(Solved({{past, total - now}}, open),
              testing::ElementsAre(testing::Pair("total", past + now)));
  // Through another: total = past + now, past = 2 * now.
  const auto both = Solved({{total, past + now}, {past, now * Dim(2)}}, open);
  EXPECT_EQ(both.at("total"), now * Dim(3));
  EXPECT_EQ(both.at("a_past"), now * Dim(2));
}

TEST(ExtentEquations, KeepLeadingDimensions) {
  const Dim a = Dim::Symbol("a"), z = Dim::Symbol("z");
  EXPECT_TRUE(Solved({{a, z}}, {"a", "z"}).contains("z"));
  EXPECT_TRUE(Solved({{a, z}}, {"a", "z"}, {"z"}).contains("a"));
}

TEST(ExtentEquations, LoseWhatBothSidesHave) {
  const Dim b = Dim::Symbol("b"), n = Dim::Symbol("n"), m = Dim::Symbol("m");
  EXPECT_EQ(Solved({{b * n * Dim(4), b * m * Dim(8)}}, {"b", "n", "m"}).at("n"), m * Dim(2));
}

TEST(ExtentEquations, DropWhatContradictsAndWhatIsNoExtent) {
  const Dim n = Dim::Symbol("n"), rounded = Dim::Symbol("m").FloorDiv(2);
  EXPECT_EQ(Solved({{n, 3}, {n, 4}}, {"n"}).at("n"), Dim(3));
  EXPECT_TRUE(Solved({{n, -3}}, {"n"}).empty());
  EXPECT_TRUE(Solved({{n, rounded}}, {"n", "m"}).empty());
  EXPECT_TRUE(Solved({{n * Dim(2), Dim::Symbol("m") * Dim(3)}}, {"n", "m"}).empty());
}

TEST(ExtentEquations, OfBroadcastsYieldTo1) {
  const Dim n = Dim::Symbol("n"), m = Dim::Symbol("m");
  EXPECT_TRUE(Solved({{n, m, true}}, {"n", "m"}, {}, Strictness::kEqual).empty());
  EXPECT_EQ(Solved({{n, m, true}}, {"n", "m"}).at("n"), m);
  EXPECT_EQ(Solved({{n, 5, true}}, {"n"}).at("n"), Dim(5));
  EXPECT_TRUE(Solved({{n, 1024, true}}, {"n"}).empty());  // 1 is the smaller sample
  EXPECT_EQ(Solved({{n, 1024, true}}, {"n"}, {}, Strictness::kLarge).at("n"), Dim(1024));
}

/// mask[row, key] by TorchScript: the mask flattened, read by row * total + key, with rows of the
/// batch of the tokens and keys from 0 to past + new.
TEST(ExtentEquations, OfIndicesIntoFlattenedAxes) {
  for (const char* mask : {"b,total", "c,total"}) {
    const auto g = ParseGraph(Cat("graph g(q: f32[b,2,new,4], mask: f32[", mask,
                                  R"(], a: f32[b,2,past,4]) -> (y) {
      zero = const i64[] {0}
      one = const i64[] {1}
      two = const i64[] {2}
      sq = Shape(q)
      b = Gather(sq, zero)
      rows0 = Range(zero, b, one)
      column = const i64[3] {1, 2, 3}
      rows = Unsqueeze(rows0, column)
      p = Shape(a)
      past = Gather(p, two)
      new = Gather(sq, two)
      n = Add(past, new)
      keys0 = Range(zero, n, one)
      row = const i64[3] {0, 1, 2}
      keys = Unsqueeze(keys0, row)
      sm = Shape(mask)
      i = const i64[1] {1}
      t = Gather(sm, i)
      f = Flatten(mask) {axis=2}
      r = Mul(rows, t)
      at = Add(keys, r)
      y = Gather(f, at) })"),
                              Ops());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const auto solved = Solved(EquationsOf(*g), {"b", "c", "new", "past", "total"}, {"b", "c"});
    ASSERT_TRUE(solved.contains("total")) << mask;
    EXPECT_EQ(solved.at("total"), Dim::Symbol("past") + Dim::Symbol("new"));
    EXPECT_EQ(solved.contains("c"), mask[0] == 'c');
  }
}

/// One axis that is read by a Range, and a table, of which a Range reads a part.
TEST(ExtentEquations, OfIndicesOfARange) {
  const auto g = ParseGraph(R"(graph g(x: f32[n], v: f32[m,3]) -> (y, z) {
    s = Size(x)  zero = const i64[] {0}  one = const i64[] {1}  r = Range(zero, s, one)
    y = Gather(v, r)  table = const f32[9,2] ~1  z = Gather(table, r) })",
                            Ops());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto solved = Solved(EquationsOf(*g), {"m", "n"});
  EXPECT_THAT(solved, testing::ElementsAre(testing::Pair("n", Dim::Symbol("m"))));
}

TEST(ExtentEquations, AreCollectedOnlyWhereAsked) {
  std::vector<ExtentEquation> outer, inner;
  const Dim a = Dim::Symbol("a"), b = Dim::Symbol("b");
  {
    const CollectExtentEquations collect(&outer);
    EXPECT_TRUE(Meet(a, b).ok());
    {
      const CollectExtentEquations nested(&inner);
      EXPECT_TRUE(Meet(a, Dim(3)).ok());
      EXPECT_TRUE(Meet(a, Dim()).ok());  // unknown: nothing is said
      EXPECT_TRUE(Meet(a, a).ok());
    }
    EXPECT_TRUE(Broadcast(Shape({a, 2}), Shape({b, 2})).ok());
  }
  EXPECT_TRUE(Meet(a, b).ok());
  ASSERT_EQ(outer.size(), 2U);
  EXPECT_FALSE(outer[0].broadcast);
  EXPECT_TRUE(outer[1].broadcast);
  ASSERT_EQ(inner.size(), 1U);
  EXPECT_EQ(inner[0].b, Dim(3));
}

}  // namespace
}  // namespace infer
