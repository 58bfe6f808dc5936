#include "tools/infer_bench/load/scenario.h"

#include "tests/tools/load/simulated_engine.h"
#include "tools/infer_bench/load/curve.h"

namespace infer::bench {
namespace {

using testing::HasSubstr;

struct Outcome {
  LoadOptions load;
  LoadResult result;
  ScenarioVerdict verdict;
};

Outcome RunScenario(SimulatedEngine& engine, const ScenarioRules& rules, double capacity = 0,
                    LoadOptions base = {}) {
  base.max_duration_s = 100'000;
  Outcome o{.load = LoadOf(rules, capacity, base), .result = {}, .verdict = {}};
  o.result = *Drive(engine, o.load);
  o.verdict = Judge(rules, o.load, o.result);
  return o;
}

/// Every tenth query takes three times as long.
SimulatedEngine::Service TenthIsSlow(double ms) {
  return [ms, i = 0](double, int64_t samples) mutable {
    return static_cast<double>(samples) * ms * (++i % 10 == 0 ? 3 : 1);
  };
}

TEST(Scenario, SingleStreamRunsForTheDurationAndEstimatesHigh) {
  SimulatedEngine engine(1, TenthIsSlow(10));
  const Outcome o = RunScenario(engine, OfficialRules(Scenario::kSingleStream));
  EXPECT_TRUE(o.verdict.valid()) << testing::PrintToString(o.verdict.reasons);
  EXPECT_GE(o.result.seconds, 600);
  EXPECT_DOUBLE_EQ(*o.verdict.value, 30);  // with 99 % confidence p90 is among the slow ones
  EXPECT_EQ(o.result.queue_max, 0);
  EXPECT_TRUE(Deviations(OfficialRules(Scenario::kSingleStream)).empty());
}

TEST(Scenario, SlowModelsRunUntilEarlyStoppingIsContent) {
  SimulatedEngine engine(1, [](double, int64_t) { return 20'000.0; });
  const Outcome o = RunScenario(engine, OfficialRules(Scenario::kSingleStream));
  EXPECT_TRUE(o.verdict.valid());
  EXPECT_EQ(o.result.issued, 64);
}

TEST(Scenario, MultiStreamAsksForEightSamplesAtOnce) {
  SimulatedEngine engine(1, [](double, int64_t samples) { return 2.0 * double(samples); });
  const Outcome o = RunScenario(engine, OfficialRules(Scenario::kMultiStream));
  EXPECT_TRUE(o.verdict.valid());
  EXPECT_DOUBLE_EQ(*o.verdict.value, 16);
}

TEST(Scenario, TooFewQueriesAreInvalidWithAReason) {
  SimulatedEngine engine(1, [](double, int64_t) { return 100.0; });
  ScenarioRules rules = OfficialRules(Scenario::kSingleStream);
  rules.min_duration_s = 2;
  rules.min_queries = 10;
  const Outcome o = RunScenario(engine, rules);
  EXPECT_FALSE(o.verdict.valid());
  EXPECT_FALSE(o.verdict.value);
  EXPECT_THAT(o.verdict.reasons, testing::ElementsAre(HasSubstr("early stopping at p90 needs 64")));
  EXPECT_THAT(Deviations(rules), testing::ElementsAre(HasSubstr("the rules ask for 600 s"),
                                                      HasSubstr("the rules ask for 64")));
}

TEST(Scenario, ServerHoldsItsTargetOrNot) {
  ScenarioRules rules = OfficialRules(Scenario::kServer);
  rules.target_latency_ms = 60;
  for (const auto& [rate, valid] : {std::pair(50.0, true), {95.0, false}, {150.0, false}}) {
    SimulatedEngine engine(1, [](double, int64_t) { return 10.0; });
    LoadOptions base{.rate = rate};
    base.drain_s = 1e5;
    const Outcome o = RunScenario(engine, rules, 0, base);
    EXPECT_EQ(o.verdict.valid(), valid) << rate;
    if (valid) {
      EXPECT_NEAR(*o.verdict.value, rate, 2);
    } else {
      EXPECT_THAT(o.verdict.reasons.front(), HasSubstr("above the target of 60 ms"));
    }
  }
}

TEST(Scenario, ServerNeedsQueriesEnoughForWhatItMissed) {
  // p99 itself is met, but 5 of 600 beyond it need more queries than that: LoadGen's rule.
  ScenarioRules rules = OfficialRules(Scenario::kServer);
  rules.target_latency_ms = 100;
  rules.min_duration_s = 60;
  SimulatedEngine engine(64,
                         [i = 0](double, int64_t) mutable { return ++i % 120 == 0 ? 200.0 : 1; });
  const Outcome o = RunScenario(engine, rules, 0, {.rate = 10});
  EXPECT_TRUE(o.verdict.target_met);
  EXPECT_FALSE(o.verdict.early_stopping_met);
  EXPECT_THAT(o.verdict.reasons, testing::ElementsAre(HasSubstr("queries for early stopping")));
}

TEST(Scenario, OfflineIsOneQueryLongEnough) {
  SimulatedEngine engine(1, [](double, int64_t samples) { return 5.0 * double(samples); });
  const Outcome o = RunScenario(engine, OfficialRules(Scenario::kOffline), 200);
  EXPECT_EQ(o.load.samples_per_query, 132'000);  // 200 * 600 * 1.1
  EXPECT_TRUE(o.verdict.valid()) << testing::PrintToString(o.verdict.reasons);
  EXPECT_NEAR(*o.verdict.value, 200, 1e-6);
  SimulatedEngine faster(1, [](double, int64_t samples) { return double(samples); });
  const Outcome shorter = RunScenario(faster, OfficialRules(Scenario::kOffline), 200);
  EXPECT_THAT(shorter.verdict.reasons, testing::ElementsAre(HasSubstr("lasted 132 s")));
}

TEST(Scenario, OfflineWaitsForItsQueryHoweverLongItMustBe) {
  // With the command's own limits: the query outlasts --max-duration, by the rules' duration or by
  // the samples that they ask for.
  for (const auto& [ms, seconds] : {std::pair(5.0, 660.0), {500.0, 12'288.0}}) {
    SimulatedEngine engine(1, [&](double, int64_t samples) { return ms * double(samples); });
    const ScenarioRules rules = OfficialRules(Scenario::kOffline);
    const LoadOptions load = LoadOf(rules, 1e3 / ms, {});
    EXPECT_LT(load.max_duration_s, seconds);
    const LoadResult result = *Drive(engine, load);
    const ScenarioVerdict verdict = Judge(rules, load, result);
    EXPECT_TRUE(verdict.valid()) << testing::PrintToString(verdict.reasons);
    EXPECT_NEAR(result.total_seconds, seconds, 1e-6);
  }
}

TEST(Scenario, InterruptedIsInvalid) {
  SimulatedEngine engine(1, [](double, int64_t) { return 1.0; });
  std::stop_source stop;
  engine.at_time = [&](double now) {
    if (now > 5'000) stop.request_stop();
  };
  const Outcome o =
      RunScenario(engine, OfficialRules(Scenario::kSingleStream), 0, {.stop = stop.get_token()});
  EXPECT_THAT(o.verdict.reasons, testing::Contains("interrupted"));
}

TEST(Curve, SaturationIsWhereTheEngineFallsBehind) {
  SimulatedEngine engine(2, [](double, int64_t) { return 10.0; });
  const LoadResult capacity = *MeasureCapacity(engine, 10, {});
  EXPECT_NEAR(capacity.throughput_per_s(), 200, 1);
  LoadOptions base{.seed = 1};
  base.duration_s = 60;
  double last_p50 = 0;
  for (double share : CurveShares()) {
    const CurvePoint p = *MeasurePoint(engine, share, 200, base);
    EXPECT_EQ(p.saturated, share > 1.05) << share;
    EXPECT_NEAR(p.result.throughput_per_s(), std::min(200.0, 200 * share), 12) << share;
    const double p50 = *p.result.latency.AtQuantile(0.5).value;
    EXPECT_GE(p50, last_p50 - 0.5) << share;
    last_p50 = p50;
  }
  EXPECT_EQ(CurveShares().size(), 11u);
  EXPECT_GT(last_p50, 1000);
}

}  // namespace
}  // namespace infer::bench
