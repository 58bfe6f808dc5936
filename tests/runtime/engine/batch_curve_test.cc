/// How many rows a run has by what was measured.
#include "runtime/engine/batch_curve.h"

#include <gtest/gtest.h>

#include "lib/support/random.h"
#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

TEST(BatchCurve, TimesBetweenAndBeyondMeasuredRows) {
  BatchCurve c;
  EXPECT_EQ(c.RunNs(3), 0);
  EXPECT_EQ(c.WorthRows(8), 1);
  c.Ran(2, 100);
  c.Ran(6, 180);
  EXPECT_EQ(c.RunNs(1), 100);
  EXPECT_EQ(c.RunNs(4), 140);
  EXPECT_EQ(c.RunNs(12), 360);
  c.Ran(6, 260);
  EXPECT_EQ(c.RunNs(6), 190) << "an eighth of the difference";
  c.Ran(0, 5);
  c.Ran(5, 0);
  EXPECT_EQ(c.RunNs(6), 190);
}

TEST(BatchCurve, GrowsAsLongAsItPays) {
  BatchCurve gains, loses, peaks;
  for (int64_t rows : {1, 2, 4, 8, 16}) {
    EXPECT_EQ(gains.WorthRows(16), rows);
    gains.Ran(rows, 100 + 10 * rows);
  }
  EXPECT_EQ(gains.WorthRows(16), 16);
  EXPECT_EQ(gains.WorthRows(5), 5) << "4 was measured, 5 is the most";
  loses.Ran(1, 100);
  EXPECT_EQ(loses.WorthRows(16), 2) << "a trial";
  loses.Ran(2, 300);
  EXPECT_EQ(loses.WorthRows(16), 1);
  for (int64_t rows : {1, 2, 4, 8}) peaks.Ran(rows, rows <= 4 ? 100 : 400);
  EXPECT_EQ(peaks.WorthRows(16), 4);
}

TEST(BatchCurve, WhatWasWorseIsTriedAgainForAHundredthOfTheTime) {
  BatchCurve c;
  c.Ran(1, 100);
  c.Ran(2, 300);  // 100 more than two by themselves
  int64_t ran = 0;
  while (c.WorthRows(4) == 1) c.Ran(1, 100), ran += 100;
  EXPECT_EQ(ran, 100 * 100);
  c.Ran(2, 300);
  EXPECT_EQ(c.WorthRows(4), 1);
  for (int i = 0; i < 30; ++i) c.Ran(2, 110);  // it has become better
  EXPECT_GE(c.WorthRows(4), 2);
}

TEST(BatchCurve, DeadlinesMakeRunsSmaller) {
  BatchCurve c;
  for (int64_t rows : {1, 2, 4, 8}) c.Ran(rows, 100 + 10 * rows);
  const auto at = [&](int64_t deadline) {
    return Advise(c, {.rows = 8, .oldest_ns = 0, .earliest_deadline_ns = deadline}, 1000, 8);
  };
  EXPECT_EQ(at(kNever).rows, 8);
  EXPECT_EQ(at(1180).rows, 8);
  EXPECT_EQ(at(1150).rows, 5);
  EXPECT_EQ(at(1150).by, BatchAdvice::By::kDeadline);
  EXPECT_EQ(at(1050).rows, 8) << "it is late anyway";
}

/// A closed loop in virtual time: answers of `clients` in a second, and how many were late.
struct Throughput {
  int64_t answered = 0, late = 0;
  ModelStats stats;
};
Throughput Of(const BatchRules& rules, const std::function<int64_t(int64_t rows)>& run_ns,
              int64_t clients, int64_t timeout_ns = kNever) {
  constexpr int64_t kEnd = 1'000'000'000;
  const auto sim = std::make_shared<Simulation>(1, 1);
  const auto engine = *Engine::Make({.clock = sim, .executor = sim});
  const auto hook = [&](const std::vector<Datum>& in, const RunOptions&) {
    sim->Elapse(run_ns(in[0].tensor().dim(0)));
    return Status();
  };
  EXPECT_TRUE(engine->Load("m", SourceOf(kRowsModel, hook), {.batch = rules}).ok());
  Throughput t;
  std::function<void()> ask = [&] {
    if (sim->NowNs() >= kEnd) return;
    engine->Submit({.model = "m", .inputs = {Filled(1)}, .timeout_ns = timeout_ns},
                   [&](const Outcome& o) {
                     ++(o.end == State::kSucceeded ? t.answered : t.late);
                     sim->At(sim->NowNs(), ask);
                   });
  };
  for (int64_t c = 0; c < clients; ++c) sim->At(1 + c, ask);
  sim->RunAll();
  t.stats = engine->Stats()[0];
  return t;
}

TEST(BatchCurve, NeverFarBelowUnbatchedNorBelowTheBest) {
  constexpr int64_t kMs = 1'000'000;
  const std::pair<const char*, std::function<int64_t(int64_t)>> models[] = {
      {"gain", [](int64_t n) { return kMs + n * kMs / 20; }},
      {"no gain", [](int64_t n) { return n * kMs; }},
      {"loss", [](int64_t n) { return n == 1 ? kMs : n * kMs * 3 / 2; }},
      {"best at four", [](int64_t n) { return n <= 4 ? 2 * kMs : n * kMs; }},
  };
  for (const auto& [name, run_ns] : models) {
    int64_t best = 0, unbatched = 0;
    for (int64_t rows : {1, 2, 4, 8, 16}) {
      const int64_t answered = Of({.max_rows = rows}, run_ns, 32).answered;
      best = std::max(best, answered);
      if (rows == 1) unbatched = answered;
    }
    const Throughput t = Of({.max_rows = 16, .adapts = true}, run_ns, 32);
    EXPECT_GE(static_cast<double>(t.answered), 0.97 * static_cast<double>(unbatched)) << name;
    EXPECT_GE(static_cast<double>(t.answered), 0.95 * static_cast<double>(best)) << name;
  }
}

TEST(BatchCurve, CountersSayWhyRunsAreSmall) {
  const Throughput t = Of(
      {.max_rows = 8, .adapts = true}, [](int64_t n) { return n == 1 ? 1'000'000 : n * 2'000'000; },
      8);
  EXPECT_GT(t.stats.fired[static_cast<size_t>(Fired::kEnough)], 500);
  EXPECT_GT(t.stats.single[static_cast<size_t>(Single::kSlower)], 500);
}

}  // namespace
}  // namespace infer::engine
