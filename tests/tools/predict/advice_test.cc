/// Advice from times that are written down.
#include "tools/infer_bench/predict/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/support/random.h"

namespace infer::bench {
namespace {

using Knob = PredictedKnob;

std::vector<PredictedSetting> Batches(std::vector<double> ms, double error) {
  std::vector<PredictedSetting> all;
  for (size_t i = 0; i < ms.size(); ++i)
    all.push_back({"m", "as-is", int64_t{1} << i, 1, 1, ms[i], error});
  return all;
}

TEST(PredictedAdvice, TakesTheBatchWithTheMostSamples) {
  // 1000, 1333, 1600, 1600 samples a second.
  const auto all = Batches({1, 1.5, 2.5, 5}, 0.05);
  const AdvisedByPrediction a = AdviseByPrediction(all, 0, 0);
  ASSERT_EQ(a.changes.size(), 1u);
  EXPECT_EQ(a.changes[0].knob, Knob::kBatch);
  EXPECT_EQ(a.chosen, 2u);
  EXPECT_NEAR(a.changes[0].low, 1.6 * (1 - 0.05 * std::sqrt(2)) - 1, 1e-9);
  EXPECT_NEAR(a.changes[0].high, 1.6 * (1 + 0.05 * std::sqrt(2)) - 1, 1e-9);
  // With its error batch 4 takes 2.625 ms.
  EXPECT_EQ(AdviseByPrediction(all, 0, 2.63).chosen, 2u);
  EXPECT_EQ(AdviseByPrediction(all, 0, 2.62).chosen, 1u);
  EXPECT_EQ(AdviseByPrediction(all, 0, 1.1).chosen, 0u);
}

TEST(PredictedAdvice, IsSilentWithinItsErrors) {
  const auto all = Batches({1, 1.8}, 0.08);  // 11 % more, two errors are 11.3 %
  const AdvisedByPrediction a = AdviseByPrediction(all, 0, 0);
  EXPECT_TRUE(a.changes.empty());
  EXPECT_EQ(a.chosen, 0u);
  EXPECT_THAT(a.none, testing::HasSubstr("more than predictions are wrong by"));
  EXPECT_EQ(AdviseByPrediction(Batches({1, 1.8}, 0.06), 0, 0).chosen, 1u);
}

TEST(PredictedAdvice, AMissedLimitComesFirst) {
  const auto all = Batches({1, 1.5, 2.5, 5}, 0.05);
  const AdvisedByPrediction a = AdviseByPrediction(all, 3, 2);
  ASSERT_EQ(a.changes.size(), 1u);
  EXPECT_TRUE(a.changes[0].keeps_limit);
  EXPECT_EQ(a.chosen, 1u) << "fewer samples, and within the limit";
  EXPECT_THAT(AdviseByPrediction(all, 3, 0.5).none, testing::HasSubstr("keep 0.5 ms"));
}

TEST(PredictedAdvice, ChangesOneKnobAtATime) {
  std::vector<PredictedSetting> all;
  for (const char* path : {"m", "small"})
    for (const char* precision : {"as-is", "int8-dynamic"})
      for (const auto& [threads, lanes] : {std::pair(2, 1), std::pair(1, 2)})
        for (int64_t batch : {1, 8}) {
          double ms = static_cast<double>(batch) + 1;
          if (path == std::string("small")) ms /= 2;
          if (precision == std::string("int8-dynamic")) ms /= 3;
          if (threads == 2) ms /= 1.4;
          all.push_back({path, precision, batch, threads, lanes, ms, 0.02});
        }
  const AdvisedByPrediction a = AdviseByPrediction(all, 0, 0);
  ASSERT_EQ(a.changes.size(), 4u);
  const std::vector<Knob> order = {Knob::kPrecision, Knob::kVariant, Knob::kBatch, Knob::kLanes};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(a.changes[i].knob, order[i]);
  EXPECT_EQ(all[a.chosen].Name(), "small, int8-dynamic, batch 8, 1 threads, 2 lanes");
  EXPECT_EQ(a.changes[3].low, 0) << "runs may wait for the same memory";
  EXPECT_GT(a.changes[3].high, 2 / 1.4 - 1);
}

TEST(PredictedAdvice, EndsOnAnySettings) {
  Random random(3);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<PredictedSetting> all;
    for (int i = 0; i < 30; ++i)
      all.push_back({random.Below(2) ? "a" : "b", random.Below(2) ? "x" : "y",
                     int64_t{1} << random.Below(4), 1 + static_cast<int>(random.Below(2)),
                     1 + static_cast<int>(random.Below(2)), random.Uniform(0.1, 9),
                     random.Uniform(0, 0.3)});
    const double within = random.Below(2) ? 0 : random.Uniform(1, 9);
    const AdvisedByPrediction a = AdviseByPrediction(all, 0, within);
    EXPECT_EQ(a.none.empty(), !a.changes.empty());
    size_t at = 0;
    for (const PredictedAdvice& c : a.changes) {
      EXPECT_EQ(c.from, at);
      EXPECT_TRUE(c.keeps_limit || all[c.to].samples_per_s() > all[c.from].samples_per_s());
      EXPECT_LE(c.low, c.high);
      at = c.to;
    }
    EXPECT_EQ(at, a.chosen);
  }
}

TEST(PredictedAdvice, ErrorsAreThoseOfTheFamiliesByTheirTime) {
  LaneProfile profile;
  profile.families["any"] = {.regret_median = 0.4, .held_out = 9};
  profile.families["conv"] = {.regret_median = 0.1, .held_out = 9};
  profile.families["rare"] = {.regret_median = 0};  // none was left out to learn it
  Prediction p;
  p.steps = {{.family = "conv", .ms = 3}, {.family = "any", .ms = 1}, {.family = "", .ms = 0}};
  EXPECT_NEAR(ErrorOf(p, profile), std::hypot(3 * 0.1, 0.4) / 4, 1e-12);
  p.steps = {{.family = "conv", .ms = 3}, {.family = "conv", .ms = 1}};
  EXPECT_NEAR(ErrorOf(p, profile), 0.1, 1e-12) << "steps of one family err alike";
  p.steps = {{.family = "rare", .ms = 3}};
  EXPECT_NEAR(ErrorOf(p, profile), 0.4, 1e-12);
  p.steps = {{.family = "bodies", .ms = 1}};
  EXPECT_NEAR(ErrorOf(p, profile), 0.4, 1e-12);
  EXPECT_EQ(ErrorOf({}, {}), 0.5);
}

}  // namespace
}  // namespace infer::bench
