/// Recommendations from figures that are written down, and from engines in virtual time that then
/// do what was recommended.
#include "runtime/engine/recommend.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lib/support/random.h"
#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

using testing::HasSubstr;

constexpr int64_t kMsNs = 1'000'000;

/// `count` requests that succeeded, with these times in ms.
Observed Served(int64_t count, double queue_ms, double compute_ms) {
  Observed o;
  const auto ns = [](double ms) { return static_cast<int64_t>(ms * 1e6); };
  for (int64_t i = 0; i < count; ++i)
    o.stats.times.total.Record(State::kSucceeded, {.queue_ns = ns(queue_ms),
                                                   .batch_ns = 0,
                                                   .compute_ns = ns(compute_ms),
                                                   .total_ns = ns(queue_ms + compute_ms)});
  o.stats.submitted = count;
  o.stats.ends[EndIndex(State::kSucceeded)] = count;
  return o;
}

/// That many runs of so many rows, ms each with a spread of 2 %.
void Ran(Observed& o, int64_t rows, int64_t runs, double ms) {
  RunTimes& t = o.stats.run_times[rows];
  for (int64_t i = 0; i <= runs; ++i) t.Add(ms * 1e6 * (i % 2 ? 0.98 : 1.02));
  o.stats.batch_rows[rows] += runs;
  o.stats.runs += runs;
}

/// One instance that has no time left, one request a run.
Observed Saturated() {
  Observed o = Served(1000, 8, 1);
  o.seconds = 1;
  Ran(o, 1, 1000, 0.99);
  o.stats.single[static_cast<size_t>(Single::kModel)] = 1000;
  return o;
}

Recommendation Only(const Advised& a) {
  EXPECT_EQ(a.recommendations.size(), 1u) << a.none;
  return a.recommendations.empty() ? Recommendation() : a.recommendations[0];
}

TEST(Recommend, NothingFromFewRequests) {
  Observed o = Served(199, 8, 1);
  o.seconds = 1;
  o.most_instances = 4;
  Ran(o, 1, 199, 5);
  const Advised a = Recommend(o);
  EXPECT_TRUE(a.recommendations.empty());
  EXPECT_EQ(a.none, "too few requests: 199 of 200");
}

TEST(Recommend, NothingWhereInstancesAreIdle) {
  Observed o = Served(1000, 0.01, 1);
  o.seconds = 10;
  o.most_instances = 4;
  Ran(o, 1, 1000, 1);
  const Advised a = Recommend(o);
  EXPECT_TRUE(a.recommendations.empty());
  EXPECT_THAT(a.none, HasSubstr("instances run 10 % of the time"));
}

TEST(Recommend, InstancesWhileProcessorsAreFree) {
  Observed o = Saturated();
  o.most_instances = 3;
  const Recommendation r = Only(Recommend(o));
  EXPECT_EQ(r.setting, Setting::kInstances);
  EXPECT_EQ(r.from, "1");
  EXPECT_EQ(r.to, "2");
  ASSERT_TRUE(r.gain);
  EXPECT_EQ(r.gain->low, 0) << "they may wait for the same memory";
  EXPECT_EQ(r.gain->high, 1);
}

TEST(Recommend, BatchesWhereNoProcessorIsFree) {
  Observed o = Saturated();
  o.batchable = true;
  EXPECT_EQ(Only(Recommend(o)).setting, Setting::kMaxRows);
  EXPECT_FALSE(Only(Recommend(o)).gain) << "nobody has measured it";
  o.batchable = false;
  EXPECT_TRUE(Recommend(o).recommendations.empty());
  EXPECT_THAT(Recommend(o).none, HasSubstr("nothing that was seen would add capacity"));
}

TEST(Recommend, MoreRowsOnlyWhereTheyMadeARowCheaper) {
  for (const bool cheaper : {true, false}) {
    Observed o = Served(1200, 8, 2);
    o.seconds = 0.8;
    o.batch = {.max_rows = 8};
    o.batchable = true;
    Ran(o, 4, 100, cheaper ? 4 : 2.5);
    Ran(o, 8, 100, 5.8);
    o.stats.fired[static_cast<size_t>(Fired::kFull)] = 150;
    const Advised a = Recommend(o);
    if (cheaper) {
      const Recommendation r = Only(a);
      EXPECT_EQ(r.setting, Setting::kMaxRows);
      EXPECT_EQ(r.to, "16");
      EXPECT_NEAR(r.gain->high, 4 / 5.8 * 2 - 1, 0.03);
    } else {
      const Recommendation r = Only(a);
      EXPECT_EQ(r.setting, Setting::kAdapts) << "fewer rows are faster";
      EXPECT_NEAR(r.gain->high, 5.8 / 2.5 / 2 - 1, 0.03);
    }
  }
}

TEST(Recommend, TrialsWhereAllRunsAreFull) {
  Observed o = Served(1200, 8, 5);
  o.seconds = 1;
  o.batch = {.max_rows = 8};
  o.batchable = true;
  Ran(o, 8, 200, 5);
  o.stats.fired[static_cast<size_t>(Fired::kFull)] = 200;
  EXPECT_EQ(Only(Recommend(o)).setting, Setting::kAdapts);
  EXPECT_FALSE(Only(Recommend(o)).gain);
  o.batch.adapts = true;
  EXPECT_TRUE(Recommend(o).recommendations.empty());
}

TEST(Recommend, NoWaitingForOthersThatDoNotCome) {
  Observed o = Served(1000, 5, 1);
  o.seconds = 10;
  o.batch = {.max_rows = 8, .max_delay_ns = 5 * kMsNs};
  Ran(o, 1, 1000, 1);
  o.stats.fired[static_cast<size_t>(Fired::kWaited)] = 1000;
  o.stats.single[static_cast<size_t>(Single::kNoneOther)] = 1000;
  const Recommendation r = Only(Recommend(o));
  EXPECT_EQ(r.setting, Setting::kMaxDelay);
  EXPECT_EQ(r.from, "5 ms");
  EXPECT_NEAR(r.gain->high, 5.0 / 6, 0.01);
  EXPECT_EQ(r.gain->of, Gain::Of::kLatency);
}

TEST(Recommend, QueuesThatFitTheTimeout) {
  Observed o = Saturated();
  o.batchable = false;
  o.stats.ends[EndIndex(State::kTimedOut)] = 500;
  o.timeout_ns = 50 * kMsNs;
  const Recommendation r = Only(Recommend(o));
  EXPECT_EQ(r.setting, Setting::kMaxRequests);
  EXPECT_EQ(r.from, "1024");
  EXPECT_EQ(r.to, "48") << "1,000 a second, 49 ms beside the run";

  Observed bursts = Served(1000, 0.1, 1);
  bursts.seconds = 10;
  Ran(bursts, 1, 1000, 1);
  bursts.stats.ends[EndIndex(State::kRejected)] = 100;
  bursts.queue.max_requests = 8;
  EXPECT_EQ(Only(Recommend(bursts)).to, "32");
}

TEST(Recommend, BucketsAndMemory) {
  Observed o = Served(1000, 0.1, 1);
  o.seconds = 10;
  o.batch = {.max_rows = 8};
  Ran(o, 1, 1000, 1);
  o.stats.single[static_cast<size_t>(Single::kShape)] = 600;
  EXPECT_EQ(Only(Recommend(o)).setting, Setting::kBuckets);
  o.has_buckets = true;
  EXPECT_TRUE(Recommend(o).recommendations.empty());
  o.stats.padded_from = 100;
  o.stats.padded_to = 180;
  EXPECT_EQ(Only(Recommend(o)).setting, Setting::kBuckets);
  o.stats.padded_to = 110;
  o.memory_bytes = 1000;
  o.stats.bytes = 300;
  o.stats.loads = o.stats.unloads = 40;
  EXPECT_EQ(Only(Recommend(o)).to, "1300");
}

TEST(Recommend, MemoryWhereItKeepsRunsSmall) {
  Observed o = Saturated();
  o.batch = {.max_rows = 8};
  o.stats.fired[static_cast<size_t>(Fired::kMemory)] = 500;
  o.stats.bytes = 300;
  EXPECT_TRUE(Recommend(o).recommendations.empty()) << "there is no budget";
  o.memory_bytes = 1000;
  const Recommendation r = Only(Recommend(o));
  EXPECT_EQ(r.setting, Setting::kMemory);
  EXPECT_EQ(r.from, "1000");
  EXPECT_EQ(r.to, "1300");
  EXPECT_THAT(r.evidence,
              testing::Contains(Evidence("share of runs without memory for more rows", 0.5)));
  o.stats.fired[static_cast<size_t>(Fired::kMemory)] = 100;
  EXPECT_TRUE(Recommend(o).recommendations.empty());
}

TEST(Recommend, ByPredictionWhereNothingWasTried) {
  Observed o = Saturated();
  o.batchable = true;
  const auto predict = [&](int64_t rows, const char* precision, int threads, double ms) {
    o.predicted.push_back({.variant = "m",
                           .precision = precision,
                           .rows = rows,
                           .threads = threads,
                           .instances = 3 - threads,
                           .ms = ms,
                           .error = 0.1});
  };
  predict(1, "as-is", 2, 0.9);
  predict(4, "as-is", 2, 1.8);
  predict(8, "as-is", 2, 3.2);
  predict(1, "int8-dynamic", 2, 0.5);
  predict(1, "as-is", 1, 1.7);
  const Recommendation rows = Only(Recommend(o));
  EXPECT_EQ(rows.setting, Setting::kMaxRows);
  EXPECT_EQ(rows.from + rows.to, "18") << "untried, 8 rows are recommended without a gain";
  ASSERT_TRUE(rows.gain);
  EXPECT_NEAR(rows.gain->low, 2.25 * (1 - 0.1 * std::sqrt(2)) - 1, 1e-9);
  EXPECT_THAT(rows.evidence, testing::Contains(Evidence("predicted ms of a run then", 3.2)));
  o.batchable = false;
  const Recommendation precision = Only(Recommend(o));
  EXPECT_EQ(precision.setting, Setting::kPrecision);
  EXPECT_EQ(precision.to, "int8-dynamic");
  EXPECT_THAT(precision.why, HasSubstr("how right it is is not predicted"));
  o.predicted[3].ms = 0.85;
  EXPECT_TRUE(Recommend(o).recommendations.empty());
  EXPECT_THAT(Recommend(o).none, HasSubstr("or is predicted for certain"));
  o.predicted[4].ms = 1;
  const Recommendation threads = Only(Recommend(o));
  EXPECT_EQ(threads.setting, Setting::kThreads);
  EXPECT_EQ(threads.to, "1 by 2 instances");
  // Measured facts go before predictions: processors are free.
  o.most_instances = 2;
  EXPECT_EQ(Only(Recommend(o)).setting, Setting::kInstances);
}

TEST(Recommend, AFasterVariantThatIsNoLessRight) {
  RoutePolicy policy{.mode = SplitRoute{}, .variants = {{.model = "fp32"}, {.model = "int8"}}};
  RouteStats stats{.route = "r", .mode = "split"};
  for (const auto& [name, ns] : {std::pair("fp32", 4 * kMsNs), std::pair("int8", kMsNs)}) {
    VariantStats v{.model = name, .ready = true, .sent = name[0] == 'f' ? 900 : 300};
    for (int i = 0; i < 300; ++i) v.total_ns.Record(ns);
    stats.variants.push_back(std::move(v));
  }
  EXPECT_FALSE(RecommendVariant(stats, policy)) << "nobody knows how right they are";
  policy.variants[0].accuracy = 0.76;
  policy.variants[1].accuracy = 0.75;
  EXPECT_FALSE(RecommendVariant(stats, policy));
  policy.variants[1].accuracy = 0.76;
  const auto stated = RecommendVariant(stats, policy);
  ASSERT_TRUE(stated);
  EXPECT_EQ(stated->from, "fp32");
  EXPECT_EQ(stated->to, "int8");
  EXPECT_NEAR(stated->gain->low, 0.75, 0.01);
  // Labels count for more than what was stated.
  stats.variants[0].labels = {.count = 1000, .successes = 760};
  stats.variants[1].labels = {.count = 1000, .successes = 700};
  EXPECT_FALSE(RecommendVariant(stats, policy));
  stats.variants[1].labels = {.count = 100'000, .successes = 76'500};
  stats.variants[0].labels = {.count = 100'000, .successes = 76'000};
  EXPECT_TRUE(RecommendVariant(stats, policy));
  policy.mode = CanaryRoute{};
  EXPECT_FALSE(RecommendVariant(stats, policy)) << "its shares are not the user's";
}

/// Figures at random, also such as no engine has: no setting twice, a reason beside no
/// recommendation, gains that are intervals.
TEST(Recommend, NeverContradictsItself) {
  Random random(7);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(random.Below(n)); };
  for (int seed = 0; seed < 2000; ++seed) {
    Observed o =
        Served(below(600), static_cast<double>(below(20)), 1 + static_cast<double>(below(5)));
    o.seconds = 0.1 * static_cast<double>(1 + below(50));
    o.instances = 1 + static_cast<int>(below(4));
    o.most_instances = o.instances + static_cast<int>(below(4));
    o.batch = {
        .max_rows = 1 + below(16), .max_delay_ns = below(2) * kMsNs, .adapts = below(2) == 1};
    o.batchable = below(2) == 1;
    o.has_buckets = below(2) == 1;
    o.timeout_ns = below(2) ? kNever : (1 + below(100)) * kMsNs;
    o.memory_bytes = below(2) ? kNever : 1000;
    o.queue.max_requests = 1 + below(100);
    for (const int64_t rows : {1, 2, 4, 8})
      if (below(2)) Ran(o, rows, below(200), 0.1 * static_cast<double>(1 + below(100)));
    for (auto& n : o.stats.fired) n = below(300);
    for (auto& n : o.stats.single) n = below(300);
    for (auto& n : o.stats.ends) n += below(100);
    o.stats.loads = below(50);
    o.stats.unloads = below(50);
    o.stats.padded_from = below(100);
    o.stats.padded_to = below(200);
    o.stats.bytes = below(300);
    for (int64_t i = below(6); i > 0; --i)
      o.predicted.push_back({.variant = below(2) ? "a" : "b",
                             .precision = below(2) ? "as-is" : "f16",
                             .rows = int64_t{1} << below(5),
                             .threads = 1 + static_cast<int>(below(2)),
                             .instances = 1 + static_cast<int>(below(2)),
                             .ms = 0.1 * static_cast<double>(1 + below(50)),
                             .error = 0.05 * static_cast<double>(below(10))});
    const Advised a = Recommend(o);
    EXPECT_EQ(a.recommendations.empty(), !a.none.empty()) << seed;
    std::set<Setting> settings;
    for (const Recommendation& r : a.recommendations) {
      EXPECT_TRUE(settings.insert(r.setting).second) << seed << ": " << Name(r.setting) << " twice";
      EXPECT_FALSE(r.evidence.empty()) << seed;
      EXPECT_NE(r.from, r.to) << seed;
      EXPECT_TRUE(!r.gain || r.gain->low <= r.gain->high) << seed;
    }
    EXPECT_LE(settings.count(Setting::kInstances) + settings.count(Setting::kMaxRows) +
                  settings.count(Setting::kAdapts) + settings.count(Setting::kThreads) +
                  settings.count(Setting::kPrecision) + settings.count(Setting::kVariant),
              1u)
        << seed << ": one change of capacity at a time";
  }
}

// ---- In virtual time -------------------------------------------------------------------------

struct Work {
  double fixed_us = 0, row_us = 0;  // of a run
  double late_row_us = 0;           // of rows beyond the fourth
  int64_t clients = 0;              // that ask again when they are answered
  uint32_t think_us = 0;            // at most, before they do
  int cores = 1;
};

/// A quarter of a second.
Observed Serve(const Work& w, const ModelOptions& options, uint64_t seed) {
  constexpr int64_t kEnd = 250'000'000;
  const auto sim = std::make_shared<Simulation>(seed, w.cores);
  const auto engine = *Engine::Make({.clock = sim, .executor = sim});
  Random noise(seed);
  const auto hook = [&](const std::vector<Datum>& in, const RunOptions&) {
    const auto rows = static_cast<double>(in[0].tensor().dim(0));
    const double us =
        w.fixed_us + w.row_us * std::min(rows, 4.0) + w.late_row_us * std::max(rows - 4, 0.0);
    sim->Elapse(static_cast<int64_t>(us * (900 + noise.Below(200))));
    return Status();
  };
  EXPECT_TRUE(engine->Load("m", SourceOf(kRowsModel, hook), options).ok());
  std::function<void()> ask = [&] {
    if (sim->NowNs() >= kEnd) return;
    engine->Submit({.model = "m", .inputs = {Filled(1)}}, [&](const Outcome&) {
      sim->At(sim->NowNs() + 1000 * int64_t{noise.Below(1 + w.think_us)}, ask);
    });
  };
  for (int64_t c = 0; c < w.clients; ++c) sim->At(1 + c, ask);
  sim->RunAll();
  return {.stats = engine->Stats()[0],
          .seconds = static_cast<double>(kEnd) / 1e9,
          .instances = options.instances,
          .most_instances = w.cores,
          .batch = options.batch,
          .queue = options.queue,
          .batchable = true};
}

void Follow(const Recommendation& r, ModelOptions& options) {
  if (r.setting == Setting::kInstances) options.instances = std::stoi(r.to);
  if (r.setting == Setting::kMaxRows) options.batch.max_rows = std::stoi(r.to);
  if (r.setting == Setting::kMaxDelay) options.batch.max_delay_ns = 0;
  if (r.setting == Setting::kAdapts) options.batch.adapts = true;
}

double Median(const Observed& o) {
  return o.stats.times.total.by[EndIndex(State::kSucceeded)][static_cast<size_t>(Phase::kTotal)]
      .Quantile(0.5);
}

/// Where a gain was told, it is there when the recommendation is followed, and within its bounds.
TEST(Recommend, WhatItPromisesComesTrue) {
  Random random(3);
  int told = 0, kept = 0;
  std::set<Setting> settings;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const double row_us = 20 + random.Below(100);
    const Work w{.fixed_us = static_cast<double>(20 + random.Below(400)),
                 .row_us = row_us,
                 .late_row_us = row_us * (1 + random.Below(3)),
                 .clients = 1 + random.Below(40),
                 .think_us = random.Below(2) * 1000,
                 .cores = 1 + static_cast<int>(random.Below(4))};
    ModelOptions options;
    options.instances = 1 + static_cast<int>(random.Below(static_cast<uint32_t>(w.cores)));
    options.batch.max_rows = int64_t{1} << random.Below(5);
    options.batch.max_delay_ns = random.Below(3) == 0 && options.batch.max_rows > 1 ? 2 * kMsNs : 0;
    options.batch.adapts = random.Below(3) == 0 && options.batch.max_rows > 1;
    const Observed before = Serve(w, options, seed);
    for (const Recommendation& r : Recommend(before).recommendations) {
      if (!r.gain) continue;
      ModelOptions changed = options;
      Follow(r, changed);
      const Observed after = Serve(w, changed, seed + 1000);
      const double gain =
          r.gain->of == Gain::Of::kThroughput
              ? static_cast<double>(after.stats.times.total.ended(State::kSucceeded)) /
                        static_cast<double>(before.stats.times.total.ended(State::kSucceeded)) -
                    1
              : 1 - Median(after) / Median(before);
      ++told;
      settings.insert(r.setting);
      const bool within = gain >= r.gain->low - 0.02 && gain <= r.gain->high + 0.05;
      kept += within ? 1 : 0;
      if (!within)
        std::printf("seed %d: %s %s -> %s: gain %.3f, told [%.3f, %.3f]\n", static_cast<int>(seed),
                    std::string(Name(r.setting)).c_str(), r.from.c_str(), r.to.c_str(), gain,
                    r.gain->low, r.gain->high);
    }
  }
  EXPECT_GT(told, 20);
  EXPECT_GE(settings.size(), 3u);
  EXPECT_GE(kept, 0.9 * told) << kept << " of " << told;
}

}  // namespace
}  // namespace infer::engine
