#include "tools/infer_bench/load/drive.h"

#include <cmath>

#include "tests/tools/load/simulated_engine.h"

namespace infer::bench {
namespace {

LoadOptions Open(double rate, double seconds, Arrivals arrivals = Arrivals::kPoisson) {
  return {.arrivals = arrivals,
          .rate = rate,
          .seed = 3,
          .duration_s = seconds,
          .max_duration_s = 10'000};
}

LoadOptions Closed(int64_t concurrency, double seconds) {
  return {.concurrency = concurrency, .duration_s = seconds};
}

TEST(Load, ClosedLoopKeepsSoManyInFlight) {
  SimulatedEngine engine(2, [](double, int64_t) { return 10.0; });
  const LoadResult r = *Drive(engine, Closed(4, 10));
  EXPECT_NEAR(r.throughput_per_s(), 200, 1);
  EXPECT_DOUBLE_EQ(r.latency.Quantile(0.5), 20);  // two work, two wait
  EXPECT_NEAR(r.waiting.mean(), 10, 0.1);
  EXPECT_DOUBLE_EQ(r.service.max(), 10);
  EXPECT_EQ(r.queue_max, 2);
  EXPECT_NEAR(r.queue_mean, 2, 0.05);
  EXPECT_EQ(r.ended, "duration");
  EXPECT_EQ(r.answered, r.issued);
  EXPECT_EQ(r.lag.count(), 0);
}

TEST(Load, APauseOf15SecondsShowsInAnOpenLoop) {
  SimulatedEngine engine(1, WithPause(2, 30'000, 15'000));
  const LoadResult r = *Drive(engine, Open(100, 120));
  EXPECT_NEAR(r.latency.max(), 15'000, 100);
  // 1,500 of 12,000 came meanwhile, so that every eighth waited.
  EXPECT_GT(*r.latency.AtQuantile(0.99).value, 12'000);
  EXPECT_GT(*r.latency.AtQuantile(0.9).value, 1'000);
  EXPECT_LT(*r.latency.AtQuantile(0.5).value, 5);
  EXPECT_NEAR(static_cast<double>(r.queue_max), 1500, 120);

  // The contrast that makes the rule: a closed loop meets the pause once.
  SimulatedEngine again(1, WithPause(2, 30'000, 15'000));
  const LoadResult closed = *Drive(again, Closed(1, 120));
  EXPECT_NEAR(closed.latency.max(), 15'000, 100);
  EXPECT_LT(*closed.latency.AtQuantile(0.999).value, 3);
}

TEST(Load, AGeneratorThatOversleepsIsChargedToo) {
  // The whole process stood still: queries are handed over late and count from when they were due.
  SimulatedEngine engine(1, [](double, int64_t) { return 1.0; });
  engine.at_time = [&](double now) {
    if (now > 5'000 && now < 6'000) engine.now_ms = 8'000;
  };
  const LoadResult r = *Drive(engine, Open(100, 20, Arrivals::kUniform));
  EXPECT_EQ(r.issued, 2000);
  EXPECT_GT(r.latency.max(), 2'900);
  EXPECT_GT(r.lag.max(), 2'900);
}

TEST(Load, WaitingIsAsQueueingTheorySays) {
  // M/D/1 at 80 %: mean wait = service * load / (2 (1 - load)) = 10 * 0.8 / 0.4 (Pollaczek, 1930).
  SimulatedEngine engine(1, [](double, int64_t) { return 10.0; });
  const LoadResult r = *Drive(engine, Open(80, 4000));
  EXPECT_NEAR(r.waiting.mean(), 20, 1);
  EXPECT_NEAR(r.queue_mean, 80 * 0.020, 0.1);
  EXPECT_NEAR(r.offered_per_s(), 80, 0.5);
  EXPECT_NEAR(r.service.mean(), 10, 1e-9);
  EXPECT_NEAR(r.latency.mean(), r.waiting.mean() + 10, 1e-6);
  EXPECT_FALSE(r.latency.exact());
}

TEST(Load, UniformArrivalsAreEqualGaps) {
  SimulatedEngine engine(1, [](double, int64_t) { return 1.0; });
  const LoadResult r = *Drive(engine, Open(300, 1, Arrivals::kUniform));
  ASSERT_EQ(r.issued, 300);
  for (size_t i = 0; i < 300; ++i)
    EXPECT_NEAR(r.latency.first().at_ms[i], static_cast<double>(i) * 1000 / 300, 1e-9);
  EXPECT_NEAR(r.lag.max(), 0, 1e-9);
}

TEST(Load, SameSeedSameArrivals) {
  const auto run = [](uint64_t seed) {
    SimulatedEngine engine(1, [](double, int64_t) { return 1.0; });
    LoadOptions o = Open(50, 10);
    o.seed = seed;
    return Drive(engine, o)->latency.first().at_ms;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(Load, OverloadKeepsArrivingAndSaysWhatIsLeft) {
  SimulatedEngine engine(1, [](double, int64_t) { return 10.0; });
  LoadOptions o = Open(200, 30);
  o.drain_s = 2;
  const LoadResult r = *Drive(engine, o);
  EXPECT_NEAR(r.throughput_per_s(), 100, 1);
  EXPECT_NEAR(r.offered_per_s(), 200, 10);
  EXPECT_NEAR(static_cast<double>(r.backlog), 3000, 300);
  EXPECT_NEAR(static_cast<double>(r.unanswered), 2800, 300);
  EXPECT_GT(r.oldest_unanswered_ms, 10'000);
  EXPECT_GE(r.latency.max(), r.oldest_unanswered_ms);
  // Those that still run count with their age: nobody is better off for not answering.
  EXPECT_GT(r.latency.count(), r.answered);
  EXPECT_GT(*r.latency.AtQuantile(0.9).value, 12'000);
}

TEST(Load, StopLeavesAValidPart) {
  SimulatedEngine engine(1, [](double, int64_t) { return 5.0; });
  std::stop_source stop;
  engine.at_time = [&](double now) {
    if (now > 2'000) stop.request_stop();
  };
  LoadOptions o = Open(100, 60);
  o.stop = stop.get_token();
  const LoadResult r = *Drive(engine, o);
  EXPECT_TRUE(r.interrupted);
  EXPECT_EQ(r.ended, "stopped");
  EXPECT_NEAR(r.seconds, 2, 0.2);
  EXPECT_GT(r.answered, 150);
  EXPECT_EQ(r.answered + r.unanswered, r.issued);
}

TEST(Load, AnEngineThatHangsDoesNotHangTheLoad) {
  SimulatedEngine engine(1, [](double start, int64_t) { return start > 1000 ? 1e12 : 1.0; });
  LoadOptions o = Open(100, 5);
  o.drain_s = 3;
  const LoadResult r = *Drive(engine, o);
  EXPECT_NEAR(r.latency.max(), 7'000, 100);
  EXPECT_GT(r.unanswered, 300);
}

TEST(Load, BothMinimaHold) {
  SimulatedEngine engine(1, [](double, int64_t) { return 100.0; });
  LoadOptions o = Closed(1, 1);
  o.min_queries = 64;
  EXPECT_EQ(Drive(engine, o)->issued, 64);
  o.max_duration_s = 2;
  const LoadResult r = *Drive(engine, o);
  EXPECT_EQ(r.ended, "max duration");
  EXPECT_NEAR(static_cast<double>(r.issued), 20, 1);
}

TEST(Latencies, HistogramIsWithinFourPerMille) {
  Latencies few(10), all;
  Random random(5);
  for (int i = 0; i < 50'000; ++i) {
    const double ms = std::exp(2 * random.Normal());
    few.Add(i, ms);
    all.Add(i, ms);
  }
  EXPECT_FALSE(few.exact());
  EXPECT_TRUE(all.exact());
  EXPECT_EQ(few.first().size(), 10u);
  for (double q : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    EXPECT_NEAR(few.Quantile(q) / all.Quantile(q), 1, 0.004) << q;
    EXPECT_NEAR(*few.AtQuantile(q).upper / *all.AtQuantile(q).upper, 1, 0.004) << q;
  }
  EXPECT_EQ(few.max(), all.max());
  EXPECT_NEAR(static_cast<double>(few.CountAbove(10)) / static_cast<double>(all.CountAbove(10)), 1,
              0.01);
}

TEST(Latencies, PercentilesNeedLoadGensCounts) {
  Latencies l;
  for (int i = 0; i < 661; ++i) l.Add(i, 1);
  EXPECT_FALSE(l.AtQuantile(0.99).value);
  l.Add(661, 1);
  EXPECT_TRUE(l.AtQuantile(0.99).value);
}

}  // namespace
}  // namespace infer::bench
