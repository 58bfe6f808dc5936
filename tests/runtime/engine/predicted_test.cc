/// Changes that predicted times speak for, from times that are written down.
#include "runtime/engine/predicted.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lib/support/random.h"

namespace infer::engine {
namespace {

/// 1, 2, 4, ... rows of one model.
std::vector<Predicted> Rows(const std::vector<double>& ms, double error) {
  std::vector<Predicted> all;
  for (size_t i = 0; i < ms.size(); ++i)
    all.push_back({.variant = "m",
                   .precision = "as-is",
                   .rows = int64_t{1} << i,
                   .ms = ms[i],
                   .error = error});
  return all;
}

TEST(Predicted, MoreRowsThatSurelyGain) {
  const auto all = Rows({1, 1.5, 2.5, 5}, 0.05);
  const SeenRuns seen{.rows = 1, .ms = 1.2};
  const auto c = ChangeByPrediction(all, seen);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->setting, PredictedSetting::kRows);
  EXPECT_EQ(c->to.rows, 4) << "as many a second as 8, and sooner";
  EXPECT_NEAR(c->low, 1.6 * (1 - 0.05 * std::sqrt(2)) - 1, 1e-9);
  EXPECT_NEAR(c->high, 1.6 * (1 + 0.05 * std::sqrt(2)) - 1, 1e-9);
  EXPECT_NEAR(c->seen, 1.2, 1e-9);
  EXPECT_FALSE(ChangeByPrediction(Rows({1, 1.8}, 0.08), seen)) << "errors could have made it";
  EXPECT_TRUE(ChangeByPrediction(Rows({1, 1.8}, 0.06), seen));
}

TEST(Predicted, NothingThatMayNotBe) {
  const auto all = Rows({1, 1.5, 2.5, 5}, 0.05);
  EXPECT_FALSE(ChangeByPrediction(all, {.rows = 1, .ms = 1, .more_rows = false}));
  EXPECT_FALSE(ChangeByPrediction(all, {.rows = 1, .ms = 1, .max_rows = 8}))
      << "rows that runs may have already are for trials to judge";
  EXPECT_EQ(ChangeByPrediction(all, {.rows = 1, .ms = 1.2, .within_ms = 3.2})->to.rows, 4);
  EXPECT_EQ(ChangeByPrediction(all, {.rows = 1, .ms = 1.2, .within_ms = 3.1})->to.rows, 2)
      << "2.5 ms, 5 % more, at the speed that was seen";
  EXPECT_FALSE(ChangeByPrediction(all, {.rows = 3, .ms = 2})) << "nothing is predicted for those";
  EXPECT_FALSE(ChangeByPrediction(all, {.rows = 1, .ms = 0}));
  EXPECT_FALSE(ChangeByPrediction(all, {.rows = 1, .ms = 2.1})) << "of another machine";
  EXPECT_FALSE(ChangeByPrediction(all, {.rows = 1, .ms = 0.4}));
  EXPECT_FALSE(ChangeByPrediction({}, {.rows = 1, .ms = 1}));
}

TEST(Predicted, OneSettingAtATimeAndTheBestOfThem) {
  const Predicted now{.variant = "m", .precision = "as-is", .threads = 2, .ms = 4, .error = 0.02};
  std::vector<Predicted> all(5, now);
  all[1].precision = "int8-dynamic";
  all[1].ms = 3;
  all[2].variant = "small";
  all[2].ms = 2;
  all[3].variant = "small";
  all[3].precision = "int8-dynamic";
  all[3].ms = 1;
  all[4].threads = 1;
  all[4].instances = 2;
  all[4].ms = 6;
  const SeenRuns seen{.rows = 1, .ms = 4};
  EXPECT_EQ(ChangeByPrediction(all, seen)->to.variant, "small");
  EXPECT_EQ(ChangeByPrediction(all, seen)->to.precision, "as-is");
  all[2].ms = 3.5;
  EXPECT_EQ(ChangeByPrediction(all, seen)->setting, PredictedSetting::kPrecision);
  all[1].ms = 3.9;
  all[2].ms = 5;
  const auto threads = ChangeByPrediction(all, seen);
  EXPECT_EQ(threads->setting, PredictedSetting::kThreads);
  EXPECT_EQ(threads->low, 0) << "runs may wait for the same memory";
  EXPECT_NEAR(threads->high, 8.0 / 6 * (1 + 0.02 * std::sqrt(2)) - 1, 1e-9);
}

/// Times at random, predicted with errors: what is certain by them is there in most cases.
TEST(Predicted, CertainGainsAreMostlyThere) {
  Random random(9);
  int told = 0, kept = 0;
  for (int i = 0; i < 3000; ++i) {
    const double fixed = random.Uniform(), row = 0.05 + random.Uniform();
    const double error = 0.02 + 0.2 * random.Uniform();
    std::vector<double> real, predicted;
    for (int64_t rows = 1; rows <= 16; rows *= 2) {
      real.push_back(fixed + row * static_cast<double>(rows));
      predicted.push_back(real.back() * std::max(0.1, 1 + error * random.Normal()));
    }
    const auto c = ChangeByPrediction(Rows(predicted, error), {.rows = 1, .ms = real[0]});
    if (!c) continue;
    ++told;
    const auto at = static_cast<size_t>(std::lround(std::log2(static_cast<double>(c->to.rows))));
    const double gain = static_cast<double>(c->to.rows) * real[0] / real[at] - 1;
    kept += gain >= 0 ? 1 : 0;
  }
  EXPECT_GT(told, 1000);
  EXPECT_EQ(kept, told) << "more rows never lose in these models";
}

}  // namespace
}  // namespace infer::engine
