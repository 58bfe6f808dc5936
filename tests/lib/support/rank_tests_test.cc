#include "lib/support/rank_tests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/support/random.h"

namespace infer {
namespace {

double StandardNormal(Random& random) {
  double sum = -6;  // of twelve uniform numbers: variance 1
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.Below(1u << 30)) / (1 << 30);
  return sum;
}

/// U of the first `n` of `values`, and the share of all ways to choose n of them that are at least
/// as far from the middle.
double BruteForceP(const std::vector<double>& values, size_t n) {
  const size_t all = values.size();
  const auto u_of = [&](uint32_t chosen) {
    double u = 0;
    for (size_t i = 0; i < all; ++i)
      for (size_t j = 0; j < all; ++j)
        if ((chosen >> i & 1) && !(chosen >> j & 1)) u += values[i] > values[j];
    return u;
  };
  const double middle = static_cast<double>(n * (all - n)) / 2;
  const double seen = std::abs(u_of((1u << n) - 1) - middle);
  double ways = 0, extreme = 0;
  for (uint32_t chosen = 0; chosen < 1u << all; ++chosen) {
    if (static_cast<size_t>(__builtin_popcount(chosen)) != n) continue;
    ++ways;
    extreme += std::abs(u_of(chosen) - middle) >= seen;
  }
  return extreme / ways;
}

TEST(RankTests, MannWhitneyCountsEveryOrder) {
  Random random(7);
  for (const size_t n : {1u, 3u, 5u, 7u})
    for (int trial = 0; trial < 5; ++trial) {
      std::vector<double> values;
      for (int i = 0; i < 11; ++i) values.push_back(StandardNormal(random));
      const std::span<const double> all(values);
      EXPECT_NEAR(MannWhitneyP(all.first(n), all.subspan(n)), BruteForceP(values, n), 1e-12) << n;
    }
}

TEST(RankTests, MannWhitneyKnowsSeparatedSides) {
  const std::vector<double> a = {1, 2, 3, 4}, b = {5, 6, 7, 8};
  EXPECT_NEAR(MannWhitneyP(a, b), 2.0 / 70, 1e-12);
  EXPECT_NEAR(MannWhitneyP(b, a), 2.0 / 70, 1e-12);
  EXPECT_EQ(MannWhitneyP(a, {}), 1);
  const std::vector<double> same(30, 2.0);
  EXPECT_EQ(MannWhitneyP(same, same), 1);
}

TEST(RankTests, MannWhitneysNormalFormMeetsTheExactOne) {
  Random random(3);
  std::vector<double> a, b;
  for (int i = 0; i < 25; ++i) {
    a.push_back(StandardNormal(random));
    b.push_back(StandardNormal(random) + 0.6);
  }
  const double exact = MannWhitneyP(a, b);
  b.push_back(b[0]);  // a tie: the normal form
  EXPECT_NEAR(MannWhitneyP(a, b), exact, 0.2 * exact);
}

TEST(RankTests, SignedRankCountsEverySign) {
  const std::vector<double> all_above = {0.1, 0.2, 0.3, 0.4, 0.5};
  EXPECT_NEAR(SignedRankP(all_above), 2.0 / 32, 1e-12);
  const std::vector<double> one_below = {-0.1, 0.2, 0.3, 0.4, 0.5};
  EXPECT_NEAR(SignedRankP(one_below), 4.0 / 32, 1e-12);
  const std::vector<double> nothing = {0, 0};
  EXPECT_EQ(SignedRankP(nothing), 1);
}

TEST(RankTests, AShiftMovesTheEstimateAndItsInterval) {
  Random random(11);
  std::vector<double> d;
  for (int i = 0; i < 30; ++i) d.push_back(StandardNormal(random));
  const Estimate e = HodgesLehmann(d, 0.95);
  EXPECT_LT(e.low, e.value);
  EXPECT_LT(e.value, e.high);
  for (double& v : d) v += 10;
  const Estimate moved = HodgesLehmann(d, 0.95);
  EXPECT_NEAR(moved.value - e.value, 10, 1e-12);
  EXPECT_NEAR(moved.low - e.low, 10, 1e-12);
  EXPECT_NEAR(moved.high - e.high, 10, 1e-12);
}

TEST(RankTests, TheIntervalLeavesOutZeroWhereTheTestRejectsIt) {
  Random random(5);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> d, a, b;
    for (int i = 0; i < 12; ++i) {
      d.push_back(StandardNormal(random) + 0.5);
      a.push_back(StandardNormal(random));
      b.push_back(StandardNormal(random) + 0.8);
    }
    const Estimate e = HodgesLehmann(d, 0.95);
    EXPECT_EQ(e.low > 0 || e.high < 0, SignedRankP(d) <= 0.05);
    const Estimate shift = HodgesLehmannShift(a, b, 0.95);
    EXPECT_EQ(shift.low > 0 || shift.high < 0, MannWhitneyP(a, b) <= 0.05);
  }
}

TEST(RankTests, IntervalsCoverAsOftenAsTheySay) {
  Random random(13);
  for (const int n : {8, 20, 60}) {
    int covered = 0, covered_shift = 0;
    constexpr int kTrials = 1000;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> a, b;
      for (int i = 0; i < n; ++i) {
        a.push_back(StandardNormal(random));
        b.push_back(StandardNormal(random));
      }
      const Estimate e = HodgesLehmann(a, 0.9), shift = HodgesLehmannShift(a, b, 0.9);
      covered += e.low <= 0 && 0 <= e.high;
      covered_shift += shift.low <= 0 && 0 <= shift.high;
    }
    EXPECT_GT(covered, 0.87 * kTrials) << n;  // discrete: never below 0.9 but for chance
    EXPECT_GT(covered_shift, 0.87 * kTrials) << n;
    EXPECT_LT(covered, 0.96 * kTrials) << n;
    EXPECT_LT(covered_shift, 0.96 * kTrials) << n;
  }
}

TEST(RankTests, TooFewValuesSupportNoInterval) {
  const std::vector<double> few = {1, 2, 3};
  EXPECT_TRUE(std::isinf(HodgesLehmann(few, 0.99).high));
  EXPECT_NEAR(HodgesLehmann(few, 0.99).value, 2, 1e-12);
}

TEST(RankTests, ManyValuesAreThinned) {
  std::vector<double> a, b;
  for (int i = 0; i < 5000; ++i) {
    a.push_back(i % 97);
    b.push_back(i % 97 + 3);
  }
  EXPECT_NEAR(HodgesLehmannShift(a, b, 0.95).value, 3, 1.5);
  EXPECT_LT(MannWhitneyP(a, b), 1e-3);
}

}  // namespace
}  // namespace infer
