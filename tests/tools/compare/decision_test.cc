#include "tools/infer_bench/compare/decision.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lib/support/random.h"

namespace infer {
namespace {

double Normal(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.Below(1u << 30)) / (1 << 30);
  return sum;
}

/// A start: process noise of `sd`, and now and then other load that hit one side.
double Start(Random& random, double effect, double sd) {
  const double burst = random.Below(20) == 0 ? 5 * sd * Normal(random) : 0;
  return std::log1p(effect) + sd * Normal(random) + burst;
}

Verdict Decide(Random& random, double effect, double sd, int max_starts = 64,
               int* starts = nullptr) {
  DecisionOptions options;
  options.max_starts = max_starts;
  Decision d(options);
  while (!d.exhausted()) d.Add(Start(random, effect, sd));
  if (starts) *starts = d.starts();
  return d.verdict();
}

TEST(Decision, EqualSidesAreNotCalledDifferent) {
  Random random(1);
  constexpr int kTrials = 4000;
  int alarms = 0, same = 0;
  for (int i = 0; i < kTrials; ++i) {
    const double sd = i % 2 ? 0.006 : 0.012;
    const Verdict v = Decide(random, 0, sd);
    alarms += v == Verdict::kSlower || v == Verdict::kFaster;
    same += v == Verdict::kSame;
  }
  EXPECT_LE(alarms, kTrials / 250);  // 0.4 %
  EXPECT_GT(same, kTrials * 9 / 10);
}

TEST(Decision, ThreePercentAreFound) {
  Random random(2);
  int slower = 0, faster = 0;
  for (int i = 0; i < 500; ++i) {
    slower += Decide(random, 0.03, 0.01) == Verdict::kSlower;
    faster += Decide(random, -0.03, 0.01) == Verdict::kFaster;
  }
  EXPECT_GE(slower, 480);
  EXPECT_GE(faster, 480);
}

TEST(Decision, TenPercentTakeFewStarts) {
  Random random(3);
  int found = 0;
  for (int i = 0; i < 500; ++i) {
    int starts = 0;
    found += Decide(random, 0.10, 0.01, 64, &starts) == Verdict::kSlower && starts <= 8;
  }
  EXPECT_GE(found, 450);
}

TEST(Decision, ALargeDifferenceTakesFiveStarts) {
  Decision d({});
  for (const double v : {-1.05, -1.06, -1.055, -1.06, -1.061}) d.Add(v);
  EXPECT_EQ(d.verdict(), Verdict::kFaster);
}

TEST(Decision, WildStartsDoNotHideADifference) {
  Random random(5);
  int found = 0;
  for (int i = 0; i < 300; ++i) {
    Decision d({});
    while (!d.exhausted())
      d.Add(random.Below(8) == 0 ? 0.5 * Normal(random) : 0.03 + 0.01 * Normal(random));
    found += d.verdict() == Verdict::kSlower;
  }
  EXPECT_GE(found, 285);
}

TEST(Decision, NoiseBeyondTheEffectIsInconclusive) {
  Random random(4);
  int wrong = 0;
  for (int i = 0; i < 200; ++i) wrong += Decide(random, 0.01, 0.2, 12) != Verdict::kInconclusive;
  EXPECT_LE(wrong, 4);
}

TEST(Decision, ASuspicionThatIsNotConfirmedIsKeptOnRecord) {
  Decision d({.max_starts = 8});
  for (const double v : {0.05, 0.051, 0.049}) d.Add(v);
  ASSERT_EQ(d.attempts().back().outcome, "suspected");
  EXPECT_TRUE(d.suspecting());
  for (const double v : {-0.05, 0.02, -0.03}) d.Add(v);
  EXPECT_FALSE(d.suspecting());
  EXPECT_EQ(d.attempts().back().outcome, "not confirmed");
  EXPECT_TRUE(d.attempts().back().confirming);
  EXPECT_EQ(d.verdict(), Verdict::kInconclusive);
  for (const double v : {-0.05, 0.04}) d.Add(v);
  EXPECT_TRUE(d.exhausted());
}

TEST(Decision, TheFewestStartsAllowedCanConfirm) {
  Decision d({.max_starts = DecisionOptions::kLeastMaxStarts});
  for (const double v : {0.05, 0.051, 0.049}) d.Add(v);
  ASSERT_TRUE(d.suspecting());
  for (const double v : {0.048, 0.052, 0.05}) d.Add(v);
  EXPECT_EQ(d.verdict(), Verdict::kSlower);
  EXPECT_EQ(d.attempts().back().outcome, "confirmed");
}

TEST(Decision, ALargeEffectInOneDirectionIsConfirmedInThatDirectionOnly) {
  Decision d({.max_starts = 32});
  for (const double v : {0.05, 0.051, 0.049}) d.Add(v);
  for (const double v : {-0.05, -0.051, -0.049}) d.Add(v);
  EXPECT_FALSE(d.decided());
  EXPECT_EQ(d.attempts().back().outcome, "not confirmed");
}

}  // namespace
}  // namespace infer
