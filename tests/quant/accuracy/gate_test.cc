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
  // Drop 0.005, interval -0.0044 to 0.0128: between the two ends nothing is decided.
  EXPECT_TRUE(check([](GateLimits& l) { l.max_drop = 0.013; }));
  EXPECT_FALSE(check([](GateLimits& l) { l.max_drop = 0.012; }));
  EXPECT_TRUE(check([](GateLimits& l) { l.min_sqnr_db = 30; }));
  EXPECT_FALSE(check([](GateLimits& l) { l.min_sqnr_db = 30.1; }));
  EXPECT_TRUE(check([](GateLimits& l) { l.min_cosine = 0.99; }));
  EXPECT_FALSE(check([](GateLimits& l) { l.min_cosine = 0.9999; }));
  EXPECT_TRUE(check([](GateLimits& l) { l.max_error_ratio = 0.02; }));
  EXPECT_FALSE(check([](GateLimits& l) { l.max_error_ratio = 0.01; }));
  EXPECT_TRUE(check([](GateLimits& l) { l.min_agreement = 0.969; }));
  EXPECT_FALSE(check([](GateLimits& l) { l.min_agreement = 0.99; }));
}

TEST(CheckGates, WhatDataCannotDecideIsInconclusive) {
  AccuracyReport r = Report();
  r.outputs[0].metrics.sqnr_interval = Interval{28, 32};
  GateLimits limits{.max_drop = 0.005, .min_sqnr_db = 29, .min_agreement = 0.975};
  for (const bool allowed : {false, true}) {
    limits.allow_inconclusive = allowed;
    const auto results = CheckGates(r, limits);
    ASSERT_EQ(results.size(), 3u);
    for (const GateResult& g : results) {
      EXPECT_TRUE(g.inconclusive) << g.message;
      EXPECT_EQ(g.passed, allowed) << g.message;
      EXPECT_THAT(g.message, testing::HasSubstr("inconclusive"));
    }
  }
  // What is beyond doubt wrong is not let through.
  r.outputs[0].metrics.sqnr_interval = Interval{28, 28.5};
  const auto results = CheckGates(r, {.min_sqnr_db = 29, .allow_inconclusive = true});
  EXPECT_FALSE(results[0].passed);
  EXPECT_FALSE(results[0].inconclusive);
}

TEST(CheckSize, BytesAndShares) {
  EXPECT_TRUE(CheckSize({25e6, false}, -1, 25'000'000).passed);
  EXPECT_FALSE(CheckSize({25e6, false}, -1, 25'000'001).passed);
  EXPECT_TRUE(CheckSize({0.3, true}, 1000, 300).passed);
  const GateResult r = CheckSize({0.3, true}, 100'000, 31'000);
  EXPECT_FALSE(r.passed);
  EXPECT_THAT(r.message, testing::StartsWith("size 0.31x, limit 0.3x"));
  EXPECT_FALSE(CheckSize({0.3, true}, -1, 1).passed);
}

TEST(CheckSpeedup, TheWholeIntervalCounts) {
  EXPECT_TRUE(CheckSpeedup(1.5, 1.7, {1.6, 1.8}, false).passed);
  EXPECT_FALSE(CheckSpeedup(1.5, 1.4, {1.3, 1.45}, true).passed);
  const GateResult open = CheckSpeedup(1.5, 1.6, {1.4, 1.8}, false);
  EXPECT_TRUE(open.inconclusive && !open.passed);
  EXPECT_TRUE(CheckSpeedup(1.5, 1.6, {1.4, 1.8}, true).passed);
}

TEST(ParseSizeLimit, UnitsAndErrors) {
  const auto bytes = [](std::string_view text) { return ParseSizeLimit(text)->value; };
  EXPECT_EQ(bytes("25MB"), 25e6);
  EXPECT_EQ(bytes("1.5 KiB"), 1536);
  EXPECT_EQ(bytes("300"), 300);
  EXPECT_FALSE(ParseSizeLimit("1GB")->is_share);
  EXPECT_TRUE(ParseSizeLimit("0.3x")->is_share);
  EXPECT_TRUE(ParseSizeLimit("30%")->is_share);
  EXPECT_NEAR(ParseSizeLimit("30%")->value, 0.3, 1e-12);
  for (const char* bad : {"", "x", "-1MB", "0", "25 MBit", "nanMB", "1e999", "0.3 y"})
    EXPECT_EQ(ParseSizeLimit(bad).status().code(), Code::kInvalidArgument) << bad;
}

TEST(CheckGates, TellsHowManySamplesWouldDecide) {
  AccuracyReport r = Report();
  r.task->samples = 100;  // lost 12, gained 7: a drop of 5 %
  ValueAccuracy& scores = r.outputs[0];
  scores.metrics.samples = 60;
  scores.rows->rows = 60;
  scores.rows->top1_agreement = 1;
  scores.metrics.sqnr_db = 30;
  scores.metrics.sqnr_interval = Interval{28, 32};
  const auto gate_of = [&](const GateLimits& limits) { return CheckGates(r, limits).front(); };
  // 0.025^(1/n) >= 0.98 from n = 183 on.
  const GateResult agreement = gate_of({.min_agreement = 0.98});
  EXPECT_TRUE(agreement.inconclusive);
  EXPECT_EQ(agreement.samples, 60);
  EXPECT_EQ(agreement.samples_needed, 183);
  // Half the interval must shrink from 2 to 1 dB: four times the samples.
  EXPECT_EQ(gate_of({.min_sqnr_db = 29}).samples_needed, 240);
  EXPECT_EQ(gate_of({.min_sqnr_db = 30}).samples_needed, 0);  // no number decides the limit itself
  const GateResult drop = gate_of({.max_drop = 0.01});
  EXPECT_TRUE(drop.inconclusive);
  PairedAccuracy more = *r.task;
  more.lost = more.lost * drop.samples_needed / 100;
  more.gained = more.gained * drop.samples_needed / 100;
  more.samples = drop.samples_needed;
  EXPECT_GE(more.DropInterval().lo, 0.0095);
  EXPECT_LE(more.DropInterval().lo, 0.0115);
  EXPECT_EQ(gate_of({.min_sqnr_db = 20}).samples_needed, 0);  // decided
}

TEST(CheckGates, FailedWinsOverInconclusive) {
  GateResult open, bad, good;
  open.inconclusive = true;
  good.passed = true;
  EXPECT_EQ(VerdictOf({}), GateVerdict::kPassed);
  EXPECT_EQ(VerdictOf({good, open}), GateVerdict::kInconclusive);
  EXPECT_EQ(VerdictOf({open, bad}), GateVerdict::kFailed);
  open.passed = true;  // the user takes it
  EXPECT_EQ(VerdictOf({good, open}), GateVerdict::kPassed);
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
  limits.min_agreement = 0.96;
  const auto results = CheckGates(Report(), limits);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_THAT(results[0].message,
              testing::AllOf(testing::StartsWith("top-1 drop 0.5 %, limit 0.1 % (95 % interval "),
                             testing::HasSubstr("lost 12, gained 7 of 1000")));
  EXPECT_THAT(results[1].message,
              testing::StartsWith("output 'scores': top-1 agreement 98 %, limit 96 % (95 % "));
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
