#include "tools/infer_bench/tune/slo.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/tools/load/simulated_engine.h"
#include "tools/bench/percentiles.h"
#include "tools/infer_bench/tune/settings.h"

namespace infer::bench {
namespace {

TEST(Slo, IsReadWithUnits) {
  const auto slo = ParseSlo({"p50=20ms", "p99.9=0.5s", "p99=900us"});
  ASSERT_TRUE(slo.ok()) << slo.status().message();
  ASSERT_EQ(slo->size(), 3u);  // the highest percentile first
  EXPECT_EQ((*slo)[0].name, "p99.9");
  EXPECT_DOUBLE_EQ((*slo)[0].ms, 500);
  EXPECT_DOUBLE_EQ((*slo)[1].ms, 0.9);
  EXPECT_DOUBLE_EQ((*slo)[2].q, 0.5);
  EXPECT_EQ(QueriesFor(*slo), LeastCount(0.999));
  for (const char* wrong : {"", "p99", "99=80ms", "p99=80", "p99=ms", "p0=1ms", "p100=1ms",
                            "p99=-1ms", "p99=0ms", "p99=nanms", "p99=infs", "pp=1s", "p99=1m"})
    EXPECT_EQ(ParseSlo({wrong}).status().code(), Code::kInvalidArgument) << wrong;
  EXPECT_FALSE(ParseSlo({"p99=1ms", "p99=2ms"}).ok());
  EXPECT_FALSE(ParseSlo({}).ok());
}

TEST(Slo, TailProbabilityIsTheBinomials) {
  EXPECT_DOUBLE_EQ(TailProbability(10, 0, 0.99), 1);
  EXPECT_NEAR(TailProbability(3, 3, 0.5), 0.125, 1e-12);
  EXPECT_NEAR(TailProbability(20, 1, 0.99), 1 - std::pow(0.99, 20), 1e-12);
  // 1 - C(100, 0..2) terms of 0.01.
  EXPECT_NEAR(TailProbability(100, 3, 0.99), 0.079373, 1e-6);
  EXPECT_NEAR(TailProbability(1'000'000, 10'000, 0.99), 0.5, 0.01);  // no underflow
  EXPECT_NEAR(TailProbability(5, 6, 0.5), 0, 1e-12);
}

LoadResult Loaded(std::initializer_list<std::pair<int, double>> latencies) {
  LoadResult r;
  for (const auto& [count, ms] : latencies)
    for (int i = 0; i < count; ++i) r.latency.Add(0, ms);
  r.answered = r.answered_in_time = r.latency.count();
  r.seconds = 10;
  return r;
}

TEST(Slo, IsMetOnlyByEnoughQueries) {
  const Slo slo = {{0.99, "p99", 10}, {0.5, "p50", 5}};
  Evidence few;
  few.Add(Loaded({{600, 4}}), 1, 1);
  EXPECT_FALSE(Meets(slo, few));  // p99 needs 662
  EXPECT_DOUBLE_EQ(Plausibility(slo, few), 1);
  Evidence enough = few;
  enough.Add(Loaded({{100, 4}}), 1, 1);
  EXPECT_TRUE(Meets(slo, enough));
  EXPECT_FALSE(Meets(slo, enough, 1.5));  // of p50's 5 ms there are 3.5 left
  Evidence tail = enough;
  tail.Add(Loaded({{7, 20}}), 1, 1);  // 1 %: neither met nor missed beyond doubt
  EXPECT_FALSE(Meets(slo, tail));
  EXPECT_GT(Plausibility(slo, tail), kSloDoubt);
  tail.Add(Loaded({{20, 20}}), 1, 1);
  EXPECT_LE(Plausibility(slo, tail), kSloDoubt);
  Evidence slow_median;
  slow_median.Add(Loaded({{20, 6}}), 1, 1);
  EXPECT_LE(Plausibility(slo, slow_median), kSloDoubt);
}

TEST(Evidence, CountsSamplesPerSecond) {
  Evidence many;
  many.Add(Loaded({{100, 40}}), 8, 2);
  EXPECT_DOUBLE_EQ(many.samples_per_s(), 80);
  // Little's law: 2 in flight, 40 ms, 8 samples each.
  Evidence few;
  few.Add(Loaded({{10, 40}}), 8, 2);
  EXPECT_DOUBLE_EQ(few.samples_per_s(), 400);
  EXPECT_EQ(Evidence().samples_per_s(), 0);
}

TEST(Slo, ABatchIsGatheredAsErlangSays) {
  const Slo slo = {{0.99, "p99", 1}};
  EXPECT_EQ(GatherMs(slo, 1, 100), 0);
  EXPECT_EQ(GatherMs(slo, 8, 0), 0);
  // One further arrival is exponential: -ln(0.01) / rate.
  EXPECT_NEAR(GatherMs(slo, 2, 100), 1e3 * -std::log(0.01) / 100, 1e-6);
  // Chi square with 14 degrees of freedom at 0.99 is 29.1412: half of it for seven arrivals.
  EXPECT_NEAR(GatherMs(slo, 8, 1000), 29.1412 / 2, 1e-3);
}

TEST(TuneSettings, AreTheGridTimesLanes) {
  EXPECT_THAT(ThreadsUpTo(6), testing::ElementsAre("1", "2", "4", "6"));
  EXPECT_THAT(ThreadsUpTo(1), testing::ElementsAre("1"));
  GridOptions grid;
  grid.threads = {"1", "4"};
  grid.batch = {"1", "2"};
  const auto settings = SettingsOf(grid, {}, 4);
  ASSERT_TRUE(settings.ok());
  ASSERT_EQ(settings->size(), 4u);
  EXPECT_EQ((*settings)[0].Name(), "precision:as-is/threads:1/batch:1/lanes:4");
  EXPECT_EQ((*settings)[3].Name(), "precision:as-is/threads:4/batch:2/lanes:1");
  const auto lanes = SettingsOf(grid, {"0", "1", "3"}, 4);
  ASSERT_TRUE(lanes.ok());
  EXPECT_EQ(lanes->size(), 2u * (3 + 2));  // four threads: 0 and 1 lanes are the same
  EXPECT_FALSE(SettingsOf(grid, {"-1"}, 4).ok());
  const auto engine = SettingsOf(grid, {"1"}, 4, {}, /*engine=*/true);
  ASSERT_EQ(engine->size(), SettingsOf(grid, {"1"}, 4)->size());
  EXPECT_EQ(engine->at(0).batch, 0);
  EXPECT_EQ(engine->at(0).max_batch, SettingsOf(grid, {"1"}, 4)->at(0).batch);
  GridOptions large = grid;
  large.batch = {"4097"};
  EXPECT_TRUE(SettingsOf(large, {}, 4).ok());
  EXPECT_FALSE(SettingsOf(large, {}, 4, {}, /*engine=*/true).ok());
  EXPECT_FALSE(SettingsOf(grid, {"x"}, 4).ok());
  grid.batch = {"0"};
  EXPECT_FALSE(SettingsOf(grid, {}, 4).ok());
}

}  // namespace
}  // namespace infer::bench
