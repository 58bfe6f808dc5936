/// Verdicts that may be looked at any time. INFER_ENGINE_EXPERIMENTS: how many are simulated.
#include "runtime/engine/experiment.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lib/support/random.h"
#include "tests/runtime/engine/from_environment.h"

namespace infer::engine {
namespace {

using Kind = ExperimentVerdict::Kind;

int64_t Experiments() { return FromEnvironment("INFER_ENGINE_EXPERIMENTS", 300); }

/// The first verdict that is not open, looked at after every request.
ExperimentVerdict FirstVerdict(uint64_t seed, const std::vector<double>& rates, int64_t requests) {
  Random random(seed);
  Experiment e({}, std::vector<double>(rates.size(), 1));
  for (int64_t i = 0; i < requests && e.verdict().kind == Kind::kOpen; ++i) {
    const size_t arm = random.Below(static_cast<uint32_t>(rates.size()));
    e.Assigned(arm);
    e.Ended(arm, random.Uniform() < rates[arm]);
  }
  return e.verdict();
}

int64_t Winners(const std::vector<double>& rates, int64_t requests) {
  int64_t winners = 0;
  for (int64_t i = 0; i < Experiments(); ++i)
    winners += FirstVerdict(static_cast<uint64_t>(i), rates, requests).kind == Kind::kWinner;
  ::testing::Test::RecordProperty(Cat("winners_of_", rates.size(), "_at_", rates[0]), Cat(winners));
  return winners;
}

/// The share that alpha allows, and four standard deviations of so many experiments.
double Allowed(double alpha) {
  const auto n = static_cast<double>(Experiments());
  return n * alpha + (n < 10'000 ? 4 * std::sqrt(n * alpha * (1 - alpha)) : 0);
}

TEST(Experiment, EqualsHaveNoWinnerHoweverOftenIsLooked) {
  EXPECT_LE(static_cast<double>(Winners({0.1, 0.1}, 10'000)), Allowed(0.05));
  EXPECT_LE(static_cast<double>(Winners({0.99, 0.99}, 5'000)), Allowed(0.05)) << "rare failures";
  EXPECT_LE(static_cast<double>(Winners({0.5, 0.5, 0.5}, 5'000)), Allowed(0.05)) << "of three";
}

TEST(Experiment, TenAgainstTwelvePercentIsFound) {
  int64_t found = 0;
  for (int64_t i = 0; i < Experiments(); ++i) {
    const ExperimentVerdict v =
        FirstVerdict(static_cast<uint64_t>(i) + 1'000'000, {0.1, 0.12}, 40'000);
    found += v.kind == Kind::kWinner && v.winner == 1 ? 1 : 0;
  }
  RecordProperty("found", Cat(found));
  EXPECT_GE(static_cast<double>(found), 0.95 * static_cast<double>(Experiments()));
}

TEST(Experiment, TheWorseOfTwoLoses) {
  const ExperimentVerdict v = FirstVerdict(1, {0.9, 0.7}, 10'000);
  EXPECT_EQ(v.kind, Kind::kWinner);
  EXPECT_EQ(v.variant, 1u);
  EXPECT_EQ(v.winner, 0u);
  EXPECT_LE(v.p_value, 0.05);
}

TEST(Experiment, SaysNothingOfFewSamples) {
  Experiment e({.least_samples = 100}, {1, 1});
  for (int i = 0; i < 99; ++i) {
    e.Ended(0, i % 2 == 0);
    e.Ended(1, i % 10 == 0);
  }
  EXPECT_EQ(e.verdict().kind, Kind::kOpen);
  EXPECT_EQ(LikelihoodRatio({1000, 1000}, {1000, 996}, 0.01), 1) << "four failures";
  EXPECT_GT(LikelihoodRatio({1000, 500}, {1000, 600}, 0.01), 1);
}

TEST(Experiment, BrokenSharesOverruleAWinner) {
  Experiment e({}, {1, 1});
  for (int i = 0; i < 3000; ++i) {
    const size_t arm = i % 3 == 0 ? 1 : 0;  // a third, and a half was asked for
    e.Assigned(arm);
    e.Ended(arm, arm == 0 || i % 2 == 0);
  }
  EXPECT_EQ(e.verdict().kind, Kind::kSampleRatio);
  EXPECT_EQ(Name(e.verdict().kind), "sample ratio");
}

TEST(SampleRatio, RightSharesDoNotPassForBrokenHoweverOftenIsLooked) {
  int64_t broken = 0;
  for (int64_t i = 0; i < Experiments(); ++i) {
    Random random(static_cast<uint64_t>(i));
    SampleRatio ratio({1, 9});
    for (int k = 0; k < 3000; ++k) ratio.Count(random.Below(10) == 0 ? 0 : 1);
    broken += ratio.broken() ? 1 : 0;
  }
  RecordProperty("broken", Cat(broken));
  EXPECT_LE(static_cast<double>(broken), Allowed(0.001));
}

TEST(ExperimentRules, NoSettingIsIgnored) {
  EXPECT_TRUE(Check(ExperimentRules{}).ok());
  EXPECT_FALSE(Check(ExperimentRules{.alpha = 0}).ok());
  EXPECT_FALSE(Check(ExperimentRules{.alpha = 1}).ok());
  EXPECT_FALSE(Check(ExperimentRules{.effect = 0}).ok());
  EXPECT_FALSE(Check(ExperimentRules{.least_samples = 0}).ok());
}

}  // namespace
}  // namespace infer::engine
