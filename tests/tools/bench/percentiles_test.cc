#include "tools/bench/percentiles.h"

#include <cmath>
#include <numeric>

#include "lib/support/random.h"

namespace infer::bench {
namespace {

using testing::HasSubstr;

/// P(Binomial(n, p) <= 1), by its two terms.
double AtMostOne(int64_t n, double p) {
  const auto count = static_cast<double>(n);
  return std::pow(1 - p, count) + count * p * std::pow(1 - p, count - 1);
}

std::vector<double> UpTo(int n) {
  std::vector<double> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 1.0);
  return v;
}

TEST(Percentiles, CountsOfLoadGen) {
  EXPECT_EQ(LeastCount(0.9), 64);
  EXPECT_EQ(LeastCount(0.95), 130);
  EXPECT_EQ(LeastCount(0.97), 219);
  EXPECT_EQ(LeastCount(0.99), 662);
  EXPECT_EQ(LeastCount(0.999), 6636);
}

TEST(Percentiles, LeastCountIsWhereOneBeyondBecomesUnlikely) {
  for (double q : {0.5, 0.75, 0.9, 0.98, 0.9999}) {
    const int64_t n = LeastCount(q);
    EXPECT_LE(AtMostOne(n, 1 - q), 0.01) << q;
    EXPECT_GT(AtMostOne(n - 1, 1 - q), 0.01) << q;
  }
}

TEST(Percentiles, WhatTheCountCannotBearIsWithheld) {
  const std::vector<double> samples = UpTo(64);
  const auto all = Percentiles(samples);
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].name, "p50");
  EXPECT_EQ(all[0].value, 32.5);
  EXPECT_EQ(all[1].name, "p90");
  EXPECT_TRUE(all[1].value);
  EXPECT_EQ(all[1].upper, 64);  // t = 1: the largest of all
  EXPECT_FALSE(all[2].value);
  EXPECT_FALSE(all[2].upper);
  EXPECT_THAT(all[2].withheld, HasSubstr("needs 130 samples, there are 64"));
  EXPECT_EQ(all[4].name, "p99.9");
  EXPECT_TRUE(Percentiles(UpTo(63))[1].withheld.size() > 0);
}

TEST(Percentiles, NothingOfNothing) {
  for (const Percentile& p : Percentiles({})) EXPECT_FALSE(p.value || p.upper);
}

TEST(Percentiles, UpperLimitsHoldTheQuantileAsOftenAsTheySay) {
  Random random(7);
  int held = 0;
  constexpr int kDraws = 2000;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<double> v(200);
    for (double& x : v) x = random.Uniform();
    std::sort(v.begin(), v.end());
    held += *UpperLimit(v, 0.9) >= 0.9;
  }
  EXPECT_GE(held, kDraws * 0.985);  // 99 % and more, since t is a whole number
}

}  // namespace
}  // namespace infer::bench
