#include "tools/infer_bench/load/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/engine/hooked_program.h"
#include "tests/tools/load/simulated_engine.h"
#include "tools/infer_bench/load/served_model.h"

namespace infer::bench {
namespace {

using engine::Priority;
using ::testing::HasSubstr;

TEST(Arrivals, AreReadAsTheyAreWritten) {
  const ArrivalTrace trace{.arrivals = {{0, Priority::kNormal, "a"},
                                        {0.25, Priority::kHigh, ""},
                                        {0.25, Priority::kLow, "b c"}},
                           .has_priority = true,
                           .has_key = true};
  const std::string text = ArrivalsText(trace);
  EXPECT_EQ(text, "at_s,priority,key\n0.000000,normal,a\n0.250000,high,\n0.250000,low,b c\n");
  const auto read = ParseArrivals(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->arrivals, trace.arrivals);
  EXPECT_TRUE(read->has_priority && read->has_key);
  const auto plain = ParseArrivals("at_s\r\n1\r\n2.5");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_EQ(plain->arrivals, (std::vector<Arrival>{{1}, {2.5}}));
  EXPECT_FALSE(plain->has_priority || plain->has_key);
}

TEST(Arrivals, FilesThatAreNoneAreRefusedWithTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no arrivals"},
      {"at_s\n", "no arrivals"},
      {"0.5\n1\n", "line 1: '0.5' is no column"},
      {"at_s,at_s\n1,2\n", "line 1: 'at_s' is no column, or is there twice"},
      {"priority\nhigh\n", "no column at_s"},
      {"at_s,model\n1,m\n", "'model' is no column"},
      {"at_s\n-1\n", "line 2: '-1' is no time"},
      {"at_s\nnan\n", "line 2: 'nan' is no time"},
      {"at_s\ninf\n", "line 2: 'inf' is no time"},
      {"at_s\n1e300\n", "line 2: '1e300' is no time"},
      {"at_s\n1\n\n", "line 3: '' is no time"},
      {"at_s\n2\n1\n", "line 3: it is before the one above"},
      {"at_s\n1,high\n", "line 2: 2 values, the head line has 1"},
      {"at_s,priority\n1\n", "line 2: 1 values, the head line has 2"},
      {"at_s,priority\n1,urgent\n", "'urgent' is no priority"},
      {"at_s,key\n1,\"a\"\n", "a key has no quotes"},
  };
  for (const auto& [text, why] : cases) {
    const auto read = ParseArrivals(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(read.status().message(), HasSubstr(why)) << text;
  }
}

TEST(Arrivals, AReplayHandsOverWhenTheyCame) {
  ArrivalTrace trace;
  for (double at_s : {0.5, 0.5, 0.75, 3.0}) trace.arrivals.push_back({.at_s = at_s});
  LoadOptions load;
  Replay(trace, 2, /*repeat=*/false, load);
  SimulatedEngine engine(1, [](double, int64_t) { return 1.0; });
  const LoadResult r = *Drive(engine, load);
  EXPECT_EQ(r.ended, "max queries");
  EXPECT_EQ(r.issued, 4);
  EXPECT_EQ(r.latency.first().at_ms, (std::vector<double>{250, 250, 375, 1500}));
  EXPECT_EQ(r.lag.max(), 0);
}

TEST(Arrivals, ARepeatedReplayKeepsItsGaps) {
  ArrivalTrace trace;
  for (double at_s : {0.0, 0.1, 0.4}) trace.arrivals.push_back({.at_s = at_s});
  LoadOptions load{.duration_s = 1};
  Replay(trace, 1, /*repeat=*/true, load);
  SimulatedEngine engine(1, [](double, int64_t) { return 1.0; });
  const LoadResult r = *Drive(engine, load);
  const std::vector<double> due = {0, 100, 400, 600, 700};  // a mean gap of 200 ms between rounds
  ASSERT_EQ(r.issued, 5);
  for (size_t i = 0; i < due.size(); ++i) EXPECT_NEAR(r.latency.first().at_ms[i], due[i], 1e-6);
  // One moment alone, over and over: not at once without an end.
  LoadOptions alone{.duration_s = 0.01};
  Replay({.arrivals = {{}}}, 1, /*repeat=*/true, alone);
  SimulatedEngine other(1, [](double, int64_t) { return 0.1; });
  EXPECT_EQ(Drive(other, alone)->issued, 10);
}

TEST(Arrivals, PrioritiesAndKeysOfARecordReachTheEngine) {
  auto trace = std::make_shared<ArrivalTrace>();
  trace->has_priority = true;
  for (int i = 0; i < 30; ++i)
    trace->arrivals.push_back({.at_s = 0, .priority = static_cast<Priority>(i % 3)});
  ServeOptions options{.engine = true, .save_arrivals = "asked", .replay = trace};
  ServedVariants variants{.names = {"m"}, .sources = {engine::SourceOf(engine::kRowsModel)}};
  auto served = *ServedModel::Make(std::move(variants), {engine::Filled(1)}, 1, 2, options, 1, {});
  (void)*Drive(*served, {.duration_s = 0, .min_queries = 7});
  ASSERT_TRUE(served->BeginMeasuring().ok());
  LoadOptions load;
  Replay(*trace, 1, /*repeat=*/false, load);
  EXPECT_EQ(Drive(*served, load)->answered, 30);
  const Json j = served->StatsJson();
  for (size_t p = 0; p < engine::kPriorities; ++p)
    EXPECT_EQ(j["priorities"][p]["total_ms"]["count"], 10) << p;
  const ArrivalTrace recorded = served->Recorded();
  ASSERT_EQ(recorded.arrivals.size(), 30);
  for (size_t i = 0; i < 30; ++i)
    EXPECT_EQ(recorded.arrivals[i].priority, trace->arrivals[i].priority);
  EXPECT_TRUE(ParseArrivals(ArrivalsText(recorded)).ok());
}

TEST(Arrivals, SettingsThatContradictARecordAreRefused) {
  auto trace = std::make_shared<ArrivalTrace>();
  trace->arrivals.push_back({});
  trace->has_priority = trace->has_key = true;
  const auto why = [&](ServeOptions o) {
    o.replay = trace;
    return o.Shares().status().message();
  };
  EXPECT_THAT(why({}), HasSubstr("go with --engine"));
  EXPECT_THAT(why({.engine = true, .priorities = {"1", "1", "1"}}),
              HasSubstr("without --priorities"));
  EXPECT_THAT(why({.engine = true}), HasSubstr("keys go with --route"));
  EXPECT_THAT(why({.engine = true, .route = "r", .keys = 3}), HasSubstr("without --keys"));
  EXPECT_EQ(why({.engine = true, .route = "r"}), "");
}

TEST(Arrivals, AGeneratorThatDoesNotKeepUpEndsAllTheSame) {
  // Each query takes the generator 10 ms to hand over, and one is due each millisecond.
  SimulatedEngine engine(1, [](double, int64_t) { return 0.1; });
  engine.at_time = [&](double) { engine.now_ms += 10; };
  const LoadResult r = *Drive(engine, {.arrivals = Arrivals::kUniform,
                                       .rate = 1000,
                                       .duration_s = 100,
                                       .max_duration_s = 2,
                                       .drain_s = 1});
  EXPECT_EQ(r.ended, "max duration");
  EXPECT_NEAR(r.seconds, 3, 0.1);
  EXPECT_TRUE(CheckRate(1e6).ok());
  EXPECT_FALSE(CheckRate(1e7).ok());
}

TEST(ServeOptionsTest, SharesWithoutAnEndAreRefused) {
  for (const char* share : {"inf", "1e308"})
    EXPECT_FALSE(ServeOptions({.engine = true, .priorities = {share, "1e308", "1"}}).Shares().ok())
        << share;
}

}  // namespace
}  // namespace infer::bench
