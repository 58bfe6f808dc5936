#include "quant/accuracy/gate.h"

#include <gmock/gmock.h>

#include <limits>

namespace infer {
namespace {

AccuracyReport Report() {
  AccuracyReport r;
  r.samples = 1000;
  ValueAccuracy scores;
  scores.name = "scores";
  scores.metrics.sqnr_db = 30;
  scores.metrics.cosine = 0.999;
  scores.metrics.max_error_ratio = 0.02;
  scores.rows = RowMetrics{1000, 0.01, 0.1, 0.98, 0.97};
  ValueAccuracy ids;
  ids.name = "ids";
  ids.is_float = false;
  r.outputs = {scores, ids};
  PairedAccuracy task;
  task.samples = 1000;
  task.golden_top1 = 800;
  task.candidate_top1 = 795;
  task.lost = 12;
  task.gained = 7;
  r.task = task;
  return r;
}

TEST(CheckGates, EachLimitBothWays) {
  const AccuracyReport r = Report();
  const auto check = [&](auto set) {
    GateLimits limits;
    set(limits);
    const auto results = CheckGates(r, limits);
    EXPECT_EQ(results.size(), 1u);
    return AllPassed(results);
  };
  EXPECT_TRUE(check([](GateLimits& l) { l.max_drop = 0.005; }));
  EXPECT_FALSE(check([](GateLimits& l) { l.max_drop = 0.0049; }));
  EXPECT_TRUE(check([](GateLimits& l) { l.min_sqnr_db = 30; }));
  EXPECT_FALSE(check([](GateLimits& l) { l.min_sqnr_db = 30.1; }));
  EXPECT_TRUE(check([](GateLimits& l) { l.min_cosine = 0.99; }));
  EXPECT_FALSE(check([](GateLimits& l) { l.min_cosine = 0.9999; }));
  EXPECT_TRUE(check([](GateLimits& l) { l.max_error_ratio = 0.02; }));
  EXPECT_FALSE(check([](GateLimits& l) { l.max_error_ratio = 0.01; }));
  EXPECT_TRUE(check([](GateLimits& l) { l.min_agreement = 0.98; }));
  EXPECT_FALSE(check([](GateLimits& l) { l.min_agreement = 0.99; }));
}

TEST(CheckGates, NoLimitsNoResults) { EXPECT_TRUE(CheckGates(Report(), {}).empty()); }

TEST(CheckGates, WhatCannotBeMeasuredFails) {
  AccuracyReport r = Report();
  r.task.reset();
  GateLimits limits;
  limits.max_drop = 0.5;
  auto results = CheckGates(r, limits);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_FALSE(results[0].passed);
  EXPECT_THAT(results[0].message, testing::HasSubstr("--labels"));
  r.outputs.erase(r.outputs.begin());
  limits = {};
  limits.min_sqnr_db = 1;
  EXPECT_FALSE(AllPassed(CheckGates(r, limits)));
}

TEST(CheckGates, NanNeverPasses) {
  AccuracyReport r = Report();
  r.outputs[0].metrics.non_finite_mismatches = 1;
  r.outputs[0].metrics.sqnr_db = std::numeric_limits<double>::infinity();
  GateLimits limits;
  limits.min_sqnr_db = 10;
  EXPECT_FALSE(AllPassed(CheckGates(r, limits)));
  r.outputs[0].metrics.non_finite_mismatches = 0;
  r.outputs[0].metrics.sqnr_db = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(AllPassed(CheckGates(r, limits)));
}

TEST(CheckGates, MessagesCarryTheNumbers) {
  GateLimits limits;
  limits.max_drop = 0.001;
  limits.min_agreement = 0.97;
  const auto results = CheckGates(Report(), limits);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_THAT(results[0].message,
              testing::AllOf(testing::StartsWith("top-1 drop 0.5 %, limit 0.1 % (95 % interval "),
                             testing::HasSubstr("lost 12, gained 7 of 1000")));
  EXPECT_THAT(results[1].message,
              testing::StartsWith("output 'scores': top-1 agreement 98 %, limit 97 % (95 % "));
  ASSERT_TRUE(results[1].interval);
  EXPECT_LT(results[1].interval->lo, 0.98);
  EXPECT_GT(results[1].interval->hi, 0.98);
}

TEST(CheckGates, MessagesAreShortAndTellANumberFromItsLimit) {
  AccuracyReport r = Report();
  r.outputs[0].metrics.sqnr_db = 34.123456789012345;
  EXPECT_EQ(CheckGates(r, {.min_sqnr_db = 30})[0].message,
            "output 'scores': SQNR 34.12 dB, limit 30 dB");
  r.outputs[0].metrics.sqnr_db = 29.99999;
  EXPECT_EQ(CheckGates(r, {.min_sqnr_db = 30})[0].message,
            "output 'scores': SQNR 29.99999 dB, limit 30 dB");
}

}  // namespace
}  // namespace infer
