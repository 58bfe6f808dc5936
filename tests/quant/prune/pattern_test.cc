#include "quant/prune/pattern.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "lib/support/random.h"
#include "quant/prune/allocate.h"
#include "quant/prune/describe.h"

namespace infer {
namespace {

using Kind = SparsityPattern::Kind;

int64_t Between(Random& r, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(r.Uniform(0, 1) * static_cast<double>(high - low + 1));
}

WeightPlane SomePlane(Random& r) {
  return {Between(r, 1, 3), Between(r, 1, 9), Between(r, 1, 21), Between(r, 1, 4)};
}

std::vector<float> SomeScores(const WeightPlane& plane, Random& r) {
  std::vector<float> s(static_cast<size_t>(plane.size()));
  // Few different numbers, so that there are ties.
  for (float& x : s) x = static_cast<float>(Between(r, 0, 12));
  return s;
}

TEST(PatternTest, UnstructuredIsExactToOneWeightAndTakesTheLeast) {
  Random random(1);
  for (int k = 0; k < 300; ++k) {
    const WeightPlane plane = SomePlane(random);
    SparsityPattern p;
    p.share = random.Uniform(0.01, 0.99);
    const auto scores = SomeScores(plane, random);
    const int64_t units = UnitsToZero(UnitsOf(plane, p), p);
    ASSERT_EQ(UnitsOf(plane, p), plane.size());
    const KeepMask keep = KeepBest(plane, p, scores, units);
    ASSERT_EQ(ZerosIn(keep), units);
    float most_dropped = -1, least_kept = 100;
    for (size_t i = 0; i < keep.size(); ++i)
      (keep[i] ? least_kept : most_dropped) =
          keep[i] ? std::min(least_kept, scores[i]) : std::max(most_dropped, scores[i]);
    ASSERT_LE(most_dropped, least_kept);
    const KeepMask rows = KeepBestOfRows(plane, scores, units);
    ASSERT_EQ(ZerosIn(rows), units);
    for (int64_t r = 0; r < plane.all_rows(); ++r) {
      const auto row = rows.begin() + r * plane.depth();
      const int64_t zeros = std::count(row, row + plane.depth(), 0);
      ASSERT_LE(std::abs(zeros - units / plane.all_rows()), 1);
    }
  }
}

TEST(PatternTest, NmKeepsTheBestNOfEachGroupAndOfItsTail) {
  Random random(2);
  for (int k = 0; k < 300; ++k) {
    const WeightPlane plane = SomePlane(random);
    SparsityPattern p;
    p.kind = Kind::kNm;
    p.m = Between(random, 2, 8);
    p.n = Between(random, 1, p.m - 1);
    const auto scores = SomeScores(plane, random);
    const KeepMask keep = KeepBest(plane, p, scores, UnitsOf(plane, p));
    ASSERT_EQ(ZerosIn(keep), NmZeros(plane, p));
    for (int64_t r = 0; r < plane.all_rows(); ++r)
      for (int64_t t = 0; t < plane.taps; ++t)
        for (int64_t c = 0; c < plane.channels; c += p.m) {
          const int64_t count = std::min(p.m, plane.channels - c);
          int64_t kept = 0;
          for (int64_t i = 0; i < count; ++i)
            kept += keep[static_cast<size_t>(r * plane.depth() + t * plane.channels + c + i)];
          ASSERT_EQ(kept, std::min(count, p.n));
        }
  }
}

TEST(PatternTest, BlocksAreExactToOneBlockAndZeroAsAWhole) {
  Random random(3);
  for (int k = 0; k < 300; ++k) {
    const WeightPlane plane = SomePlane(random);
    SparsityPattern p;
    p.kind = Kind::kBlocks;
    p.block_rows = Between(random, 1, 5);
    p.block_columns = Between(random, 1, 5);
    p.share = random.Uniform(0.01, 0.99);
    const int64_t units = UnitsToZero(UnitsOf(plane, p), p);
    const KeepMask keep = KeepBest(plane, p, SomeScores(plane, random), units);
    int64_t zero_blocks = 0, blocks = 0;
    for (int64_t g = 0; g < plane.groups; ++g)
      for (int64_t r = 0; r < plane.rows; r += p.block_rows)
        for (int64_t t = 0; t < plane.taps; ++t)
          for (int64_t c = 0; c < plane.channels; c += p.block_columns) {
            int64_t kept = 0, size = 0;
            for (int64_t i = r; i < std::min(r + p.block_rows, plane.rows); ++i)
              for (int64_t j = c; j < std::min(c + p.block_columns, plane.channels); ++j, ++size)
                kept += keep[static_cast<size_t>((g * plane.rows + i) * plane.depth() +
                                                 t * plane.channels + j)];
            ASSERT_TRUE(kept == 0 || kept == size);
            ++blocks;
            zero_blocks += kept == 0;
          }
    ASSERT_EQ(blocks, UnitsOf(plane, p));
    ASSERT_EQ(zero_blocks, units);
  }
}

TEST(PatternTest, CutsCrossNoUnit) {
  const WeightPlane plane{1, 2, 10, 3};
  SparsityPattern p;
  p.kind = Kind::kNm;
  p.n = 2;
  p.m = 4;
  EXPECT_THAT(DepthCuts(plane, p, 1), testing::ElementsAre(0, 4, 8, 10, 14, 18, 20, 24, 28, 30));
  EXPECT_THAT(DepthCuts(plane, p, 9), testing::ElementsAre(0, 10, 20, 30));
}

TEST(PatternTest, RequestsThatAreNone) {
  EXPECT_EQ(ToString(*ParseNm("2:4")), "2:4");
  for (const char* text : {"0:4", "4:4", "5:4", "2", "2:", ":4", "a:b", "2:-4", "2:1000", ""})
    EXPECT_FALSE(ParseNm(text).ok()) << text;
  EXPECT_EQ(ToString(*ParseBlocks("16x1")), "50 % in blocks of 16x1");
  for (const char* text : {"1x1", "0x4", "4x0", "4", "x", "1x", "1x4x4", "512x1"})
    EXPECT_FALSE(ParseBlocks(text).ok()) << text;
  for (const double share : {0.0, 1.0, 1.5}) EXPECT_FALSE(CheckShare(share).ok()) << share;
  EXPECT_TRUE(CheckShare(0.999).ok());
}

TEST(AllocateTest, SumsAreExactAndCheapUnitsGoFirst) {
  const std::vector<CostCurve> curves = {
      {100, {{50, 1.0}, {90, 9.0}}}, {100, {{50, 0.1}, {90, 0.5}}}, {10, {{5, 5.0}}}};
  EXPECT_THAT(AllocateByCost(curves, 90), testing::ElementsAre(0, 90, 0));
  EXPECT_THAT(AllocateByCost(curves, 120), testing::ElementsAre(30, 90, 0));
  for (int64_t total = 0; total <= 210; ++total) {
    const auto zeros = AllocateByCost(curves, total);
    EXPECT_EQ(std::accumulate(zeros.begin(), zeros.end(), int64_t{0}), total);
    for (size_t i = 0; i < zeros.size(); ++i) EXPECT_LE(zeros[i], curves[i].units);
    const std::vector<int64_t> units = {100, 100, 10};
    const auto even = AllocateEvenly(units, total);
    EXPECT_EQ(std::accumulate(even.begin(), even.end(), int64_t{0}), total);
    for (size_t i = 0; i < even.size(); ++i) EXPECT_LE(even[i], units[i]);
  }
}

TEST(AllocateTest, SparesWhatCostsMostForItsSize) {
  const std::vector<int64_t> weights = {10, 500, 20, 470};
  const std::vector<double> costs = {1.0, 2.0, 0.1, 1.0};
  EXPECT_THAT(LayersToSpare(weights, costs, 0.02), testing::ElementsAre(0));
  EXPECT_THAT(LayersToSpare(weights, costs, 0.03), testing::ElementsAre(0, 2));
  EXPECT_TRUE(LayersToSpare(weights, costs, 0).empty());
}

TEST(DescribeTest, FindsThePatternThatPruningMade) {
  Random random(4);
  const WeightPlane plane{1, 32, 16, 3};
  std::vector<float> w(static_cast<size_t>(plane.size()));
  for (float& x : w) x = static_cast<float>(random.Normal());
  const auto seen = [&](const SparsityPattern& p) {
    const KeepMask keep = KeepBest(plane, p, w, UnitsToZero(UnitsOf(plane, p), p));
    std::vector<float> masked = w;
    for (size_t i = 0; i < keep.size(); ++i) masked[i] = keep[i] ? w[i] : 0;
    return SparsityOf(plane, masked);
  };
  const LayerSparsity nm = seen(*ParseNm("2:4"));
  EXPECT_EQ(nm.zeros, plane.size() / 2);
  EXPECT_EQ(nm.n * 10 + nm.m, 24);
  EXPECT_EQ(nm.block_rows, 0);
  const LayerSparsity wide = seen(*ParseBlocks("1x8")), tall = seen(*ParseBlocks("16x1"));
  EXPECT_EQ(wide.block_rows * 100 + wide.block_columns, 108);
  EXPECT_EQ(tall.block_rows * 100 + tall.block_columns, 1601);
  const LayerSparsity both = seen(*ParseBlocks("16x4"));
  EXPECT_EQ(both.block_rows * 100 + both.block_columns, 1604);
  const LayerSparsity loose = seen({});
  EXPECT_EQ(loose.zeros, plane.size() / 2);
  EXPECT_EQ(loose.m, 0);
  EXPECT_EQ(loose.block_rows, 0);
  EXPECT_EQ(SparsityOf(plane, w).zeros, 0);
}

}  // namespace
}  // namespace infer
