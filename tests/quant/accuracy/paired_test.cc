#include "quant/accuracy/paired.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

namespace infer {
namespace {

/// Sum of C(n, i) / 2^n by Pascal's triangle: another way to the same number.
double TwoSided(int lost, int gained) {
  const int n = lost + gained;
  std::vector<double> row{1};
  for (int i = 0; i < n; ++i) {
    std::vector<double> next(row.size() + 1, 0);
    for (size_t k = 0; k < row.size(); ++k) {
      next[k] += row[k] / 2;
      next[k + 1] += row[k] / 2;
    }
    row = next;
  }
  double p = 0;
  for (int i = 0; i <= std::min(lost, gained); ++i) p += row[static_cast<size_t>(i)];
  return std::min(1.0, 2 * p);
}

TEST(McNemarExact, KnownValues) {
  EXPECT_EQ(McNemarExact(0, 0), 1);
  EXPECT_NEAR(McNemarExact(0, 5), 0.0625, 1e-12);
  EXPECT_NEAR(McNemarExact(1, 9), 0.021484375, 1e-12);
  EXPECT_EQ(McNemarExact(4, 4), 1);
  EXPECT_NEAR(McNemarExact(10, 20), 0.098737, 1e-6);
  EXPECT_EQ(McNemarExact(20, 10), McNemarExact(10, 20));
}

TEST(McNemarExact, EqualsDirectSums) {
  for (int lost = 0; lost < 40; lost += 3)
    for (int gained = 0; gained < 40; gained += 4)
      EXPECT_NEAR(McNemarExact(lost, gained), TwoSided(lost, gained), 1e-10);
  EXPECT_NEAR(McNemarExact(5000, 5000), 1, 1e-9);
  EXPECT_LT(McNemarExact(4000, 5000), 1e-20);
}

TEST(ClopperPearson, KnownValues) {
  // The rule of three's exact form: no success in n trials bounds p by 1 - (a/2)^(1/n).
  EXPECT_EQ(ClopperPearson(0, 10).lo, 0);
  EXPECT_NEAR(ClopperPearson(0, 10).hi, 1 - std::pow(0.025, 0.1), 1e-10);
  EXPECT_NEAR(ClopperPearson(10, 10).lo, std::pow(0.025, 0.1), 1e-10);
  EXPECT_EQ(ClopperPearson(10, 10).hi, 1);
  // scipy.stats.binomtest(5, 20).proportion_ci()
  EXPECT_NEAR(ClopperPearson(5, 20).lo, 0.08657147, 1e-7);
  EXPECT_NEAR(ClopperPearson(5, 20).hi, 0.49104587, 1e-7);
  EXPECT_EQ(ClopperPearson(0, 0), (Interval{0, 1}));
}

TEST(PairedAccuracy, CountsAndInterval) {
  PairedAccuracy p;
  const std::vector<float> one{0, 9, 1, 2, 3, 4, 5}, two{0, 1, 9, 2, 3, 4, 5};
  for (int i = 0; i < 90; ++i) p.Add(one, one, 1);  // both right
  for (int i = 0; i < 7; ++i) p.Add(one, two, 1);   // lost, and not among the candidate's five
  for (int i = 0; i < 3; ++i) p.Add(one, two, 2);   // gained
  EXPECT_EQ(p.lost, 7);
  EXPECT_EQ(p.gained, 3);
  EXPECT_DOUBLE_EQ(p.golden_accuracy(), 0.97);
  EXPECT_DOUBLE_EQ(p.candidate_accuracy(), 0.93);
  EXPECT_DOUBLE_EQ(p.drop(), 0.04);
  EXPECT_EQ(p.golden_top5, 97);
  EXPECT_EQ(p.candidate_top5, 93);
  EXPECT_NEAR(p.p_value(), TwoSided(7, 3), 1e-12);
  const Interval ci = p.DropInterval();
  EXPECT_NEAR(ci.lo, (2 * ClopperPearson(7, 10).lo - 1) * 0.1, 1e-12);
  EXPECT_LT(ci.lo, 0);  // not significant
  EXPECT_GT(ci.hi, 0.04);
}

/// The score of a true drop `d`, its odds of a gain by trying many.
double ScoreOf(const PairedAccuracy& p, double d) {
  const auto lost = static_cast<double>(p.lost), gained = static_cast<double>(p.gained),
             n = static_cast<double>(p.samples);
  const auto times_log = [](double k, double x) { return k > 0 ? k * std::log(x) : 0; };
  double best = -HUGE_VAL, odds = 0;
  constexpr int kSteps = 2000000;
  for (int i = 0; i <= kSteps; ++i) {
    const double low = std::max(0.0, -d), q = low + ((1 - d) / 2 - low) * i / kSteps;
    const double likelihood =
        times_log(lost, q + d) + times_log(gained, q) + times_log(n - lost - gained, 1 - 2 * q - d);
    if (likelihood > best) best = likelihood, odds = q;
  }
  return (lost - gained - n * d) / std::sqrt(n * (2 * odds + d - d * d));
}

TEST(PairedAccuracy, PopulationIntervalIsWhereTheScoreIsTwoDeviations) {
  for (const auto& [samples, lost, gained] :
       {std::tuple(100, 7, 3), {500, 0, 4}, {44, 20, 0}, {1000, 30, 30}, {60, 1, 58}}) {
    PairedAccuracy p{.samples = samples, .lost = lost, .gained = gained};
    const Interval ci = p.PopulationDropInterval();
    EXPECT_LT(ci.lo, p.drop());
    EXPECT_GT(ci.hi, p.drop());
    EXPECT_NEAR(ScoreOf(p, ci.lo), 1.96, 2e-3) << samples << " " << lost;
    EXPECT_NEAR(ScoreOf(p, ci.hi), -1.96, 2e-3) << samples << " " << lost;
    const PairedAccuracy swapped{.samples = samples, .lost = gained, .gained = lost};
    EXPECT_NEAR(swapped.PopulationDropInterval().lo, -ci.hi, 1e-9);
  }
}

TEST(PairedAccuracy, FewSamplesSayLittleOfAllData) {
  for (const int64_t n : {1, 125, 10000}) {
    const double bound = 3.841458821 / (static_cast<double>(n) + 3.841458821);
    const Interval ci = PairedAccuracy{.samples = n}.PopulationDropInterval();
    EXPECT_NEAR(ci.hi, bound, 1e-9);
    EXPECT_NEAR(ci.lo, -bound, 1e-9);
  }
  EXPECT_EQ(PairedAccuracy{}.PopulationDropInterval(), (Interval{-1, 1}));
  const PairedAccuracy all{.samples = 5, .lost = 5};
  EXPECT_NEAR(all.PopulationDropInterval().hi, 1, 1e-9);
  EXPECT_GT(all.PopulationDropInterval().lo, 0.1);
}

}  // namespace
}  // namespace infer
