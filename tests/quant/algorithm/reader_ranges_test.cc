#include "quant/algorithm/reader_ranges.h"

#include "lib/support/strings.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

/// The range of c after narrowing, where it was [-50, 20].
Interval Narrowed(std::string_view readers) {
  const Graph g = MustParse(Cat(R"(
graph g(x: f32[1,1,2,2]) -> (y: f32[1,1,2,2]) {
  w = const f32[1,1,1,1] {1}
  c = Conv(x, w)
  )",
                                readers, "\n  y = Conv(s, w)\n}\n"));
  StaticModel m{g.Clone(), {}, {}};
  for (const char* name : {"x", "c", "s"}) m.ranges[name] = {{-50, 20}, {-50, 20}, 4, 0};
  const auto n = NarrowByReaders(m, g);
  EXPECT_TRUE(n.ok()) << n.status().message();
  return m.ranges.at("c").range;
}

TEST(NarrowByReaders, SiluNeedsNoLargeNegatives) {
  const Interval r = Narrowed("g = Sigmoid(c)\n  s = Mul(c, g)");
  EXPECT_GT(r.lo, -8);
  EXPECT_LT(r.lo, -4);
  EXPECT_EQ(r.hi, 20);
}

TEST(NarrowByReaders, HardSwishEndsAtMinusThree) {
  const Interval r = Narrowed(
      "three = const f32[] {3}\n  zero = const f32[] {0}\n  six = const f32[] {6}\n"
      "  t = Add(c, three)\n  k = Clip(t, zero, six)\n  d = Div(k, six)\n  s = Mul(c, d)");
  EXPECT_NEAR(r.lo, -3, 0.1);
  EXPECT_EQ(r.hi, 20);
}

TEST(NarrowByReaders, SigmoidIsFlatAtBothEnds) {
  const Interval r = Narrowed("s = Sigmoid(c)");
  EXPECT_GT(r.lo, -9);
  EXPECT_LT(r.hi, 9);
}

TEST(NarrowByReaders, AReaderThatTellsThemApartForbids) {
  EXPECT_EQ(Narrowed("g = Sigmoid(c)\n  s = Add(c, g)"), (Interval{-50, 20}));
  EXPECT_EQ(Narrowed("g = Sigmoid(c)\n  s = Mul(x, g)").lo > -50, true);
  EXPECT_EQ(Narrowed("t = Conv(c, w)\n  g = Sigmoid(c)\n  s = Mul(t, g)"), (Interval{-50, 20}));
}

}  // namespace
}  // namespace infer
