/// How many rows a run has by what was measured.
#include "runtime/engine/batch_trials.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/support/random.h"
#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

/// Two runs, of which the second counts.
void RanTwice(BatchCurve& curve, int64_t rows, int64_t ns) {
  curve.Ran(rows, 1000 * ns);
  curve.Ran(rows, ns);
}

TEST(BatchCurve, TimesBetweenAndBeyondMeasuredRows) {
  BatchCurve c;
  EXPECT_EQ(c.RunNs(3), 0);
  c.Ran(2, 7777);
  EXPECT_EQ(c.RunNs(2), 0) << "the first run plans";
  c.Ran(2, 100);
  RanTwice(c, 6, 180);
  EXPECT_EQ(c.RunNs(1), 100);
  EXPECT_EQ(c.RunNs(4), 140);
  EXPECT_EQ(c.RunNs(12), 360);
  c.Ran(6, 260);
  EXPECT_EQ(c.RunNs(6), 190) << "an eighth of the difference";
  c.Ran(0, 5);
  c.Ran(5, 0);
  EXPECT_EQ(c.RunNs(6), 190);
}

using RunNs = std::function<int64_t(int64_t rows)>;

/// Runs of as many rows as trials and limit say, while `waiting` wait; time in all, and in trials.
struct Spent {
  int64_t ns = 0, rows = 0, trials = 0;
};
Spent Drive(BatchTrials& t, int64_t waiting, int64_t runs, const RunNs& ns) {
  Spent spent;
  for (int64_t i = 0; i < runs; ++i) {
    const int64_t tries = t.Wanted(waiting);
    const int64_t rows = std::min(tries > 0 ? tries : t.limit(), waiting);
    if (tries > 0) t.Begin(tries);
    t.Ran(rows, ns(rows), tries);
    spent.ns += ns(rows);
    spent.rows += rows;
    spent.trials += tries > 0;
  }
  return spent;
}
double PerRow(const Spent& s) { return static_cast<double>(s.ns) / static_cast<double>(s.rows); }

TEST(BatchTrials, FewerRowsAreTakenWhereTheyAreFaster) {
  BatchTrials gains(16), loses(16), peaks(16), even(16);
  Drive(gains, 16, 20'000, [](int64_t n) { return 1000 + 100 * n; });
  EXPECT_EQ(gains.limit(), BatchTrials::kNoLimit);
  Drive(loses, 16, 20'000, [](int64_t n) { return n == 1 ? 1000 : 1500 * n; });
  EXPECT_EQ(loses.limit(), 1);
  Drive(peaks, 16, 20'000, [](int64_t n) { return n <= 4 ? 2000 : 1000 * n; });
  EXPECT_EQ(peaks.limit(), 4);
  Drive(even, 16, 20'000, [](int64_t n) { return 1000 * n; });
  EXPECT_EQ(even.limit(), BatchTrials::kNoLimit) << "in doubt as the rules say";
}

TEST(BatchTrials, OneSmallRunAtTheBeginStopsNothing) {
  BatchTrials t(8);
  t.Ran(1, 900, 0);
  Drive(t, 8, 20'000, [](int64_t n) { return n == 1 ? 1000 : 1500 * n; });
  EXPECT_EQ(t.limit(), 1);
}

TEST(BatchTrials, CostAtMostTheirShare) {
  BatchTrials t(16);
  const RunNs ns = [](int64_t n) { return 100'000 + 1000 * n; };
  const double usual = static_cast<double>(ns(16)) / 16;
  const Spent begin = Drive(t, 16, 300, ns);
  const double more_ns = static_cast<double>(begin.ns) - usual * static_cast<double>(begin.rows);
  EXPECT_LT(more_ns, 4 * 2 * 4 * static_cast<double>(ns(16)) + 0.05 * static_cast<double>(begin.ns))
      << "two trials of each limit, of four full runs, and a twentieth of all time";
  const Spent all = Drive(t, 16, 50'000, ns);
  EXPECT_GT(all.trials, 50);
  EXPECT_LT(PerRow(all), 1.05 * usual);
  EXPECT_LT(PerRow(Drive(t, 16, 100'000, ns)), 1.003 * usual) << "less, once the answer is known";
}

TEST(BatchTrials, TimeInWhichFewWaitPaysForFewTrials) {
  BatchTrials t(16);
  const RunNs ns = [](int64_t n) { return 100'000 + 1000 * n; };
  Drive(t, 16, 50'000, ns);  // every limit is known
  Drive(t, 1, 1'000'000, ns);
  EXPECT_LT(PerRow(Drive(t, 16, 3'000, ns)), 1.02 * static_cast<double>(ns(16)) / 16);
}

TEST(BatchTrials, FirstRunsDoNotCount) {
  // A number of rows is planned when it is seen first, and whatever follows another is slow.
  std::map<int64_t, bool> planned;
  int64_t last = 0;
  BatchTrials t(8);
  const RunNs ns = [](int64_t n) { return n == 1 ? 1000 : 1200 * n; };
  for (int i = 0; i < 100'000; ++i) {
    const int64_t tries = t.Wanted(8);
    const int64_t rows = std::min<int64_t>(tries > 0 ? tries : t.limit(), 8);
    if (tries > 0) t.Begin(tries);
    int64_t took = ns(rows) + (rows == last ? 0 : 4000);
    if (!std::exchange(planned[rows], true)) took += 5'000'000;
    last = rows;
    t.Ran(rows, took, tries);
  }
  EXPECT_EQ(t.limit(), 1);
}

TEST(BatchTrials, AFasterLimitIsFoundWithinSomeHundredRows) {
  BatchTrials t(8);
  int64_t rows = 0;
  while (t.limit() != 1 && rows < 10'000)
    rows += Drive(t, 8, 1, [](int64_t n) { return n == 1 ? 1000 : 1200 * n; }).rows;
  EXPECT_LT(rows, 700);
}

TEST(BatchTrials, FindTheWayBack) {
  BatchTrials t(8);
  Drive(t, 8, 20'000, [](int64_t n) { return n <= 2 ? 1000 : 1000 * n; });
  EXPECT_EQ(t.limit(), 2);
  Drive(t, 8, 100'000, [](int64_t n) { return 1000 + 10 * n; });
  EXPECT_EQ(t.limit(), BatchTrials::kNoLimit);
}

TEST(BatchTrials, AMachineThatBecomesSlowerDecidesNothing) {
  // The speed changes by up to a factor of three every 200 runs; single runs by a tenth.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    BatchTrials t(8);
    int64_t runs = 0;
    double speed = 1;
    const RunNs ns = [&](int64_t n) {
      if (++runs % 400 == 0) speed = 1 + 2 * random.Uniform();
      return static_cast<int64_t>(static_cast<double>(10'000 + 8'000 * n) * speed *
                                  (0.9 + 0.2 * random.Uniform()));
    };
    Drive(t, 8, 50'000, ns);
    EXPECT_EQ(t.limit(), BatchTrials::kNoLimit) << seed;
  }
}

TEST(BatchTrials, TrialsWaitForWhatTheRulesWaitFor) {
  BatchTimes times(8);
  for (int i = 0; i < 1000; ++i) times.trials.Ran(8, 1000, 0);
  const BatchRules rules{.max_rows = 8, .max_delay_ns = 500, .adapts = true};
  const auto by = [&](int64_t rows, int64_t now) {
    return Advise(times, rules, {.rows = rows, .oldest_ns = 0}, now, false).by;
  };
  EXPECT_EQ(by(8, 10), BatchAdvice::By::kTrial);
  EXPECT_EQ(by(5, 10), BatchAdvice::By::kRules) << "others may come";
  EXPECT_EQ(by(5, 500), BatchAdvice::By::kTrial);
}

TEST(BatchTimes, DeadlinesMakeRunsSmaller) {
  BatchTimes t(8);
  for (int64_t rows : {1, 2, 4, 8}) RanTwice(t.curve, rows, 100 + 10 * rows);
  const auto at = [&](int64_t deadline) {
    return Advise(t, {.max_rows = 8, .adapts = true},
                  {.rows = 8, .oldest_ns = 0, .earliest_deadline_ns = deadline}, 1000, false);
  };
  EXPECT_EQ(at(kNever).rows, 8);
  EXPECT_EQ(at(1180).rows, 8);
  EXPECT_EQ(at(1150).rows, 5);
  EXPECT_EQ(at(1150).by, BatchAdvice::By::kDeadline);
  EXPECT_EQ(at(1050).rows, 8) << "it is late anyway";
}

/// A closed loop of `clients` in virtual time: answers in 0.6 s, and in the last sixth of it.
struct Throughput {
  int64_t answered = 0, at_last = 0;
  ModelStats stats;
};
Throughput Of(const BatchRules& rules, const RunNs& run_ns, int64_t clients) {
  constexpr int64_t kEnd = 600'000'000;
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
    engine->Submit({.model = "m", .inputs = {Filled(1)}}, [&](const Outcome& o) {
      EXPECT_EQ(o.end, State::kSucceeded);
      ++t.answered;
      t.at_last += sim->NowNs() > kEnd - kEnd / 6 ? 1 : 0;
      sim->At(sim->NowNs(), ask);
    });
  };
  for (int64_t c = 0; c < clients; ++c) sim->At(1 + c, ask);
  sim->RunAll();
  t.stats = engine->Stats()[0];
  return t;
}

TEST(BatchTrials, NeverFarBelowTheRules) {
  constexpr int64_t kUs = 1'000;
  const std::pair<const char*, RunNs> models[] = {
      {"loss", [](int64_t n) { return n == 1 ? 20 * kUs : n * 30 * kUs; }},
      {"best at four", [](int64_t n) { return n <= 4 ? 40 * kUs : n * 20 * kUs; }},
      {"gain", [](int64_t n) { return (20 + n) * kUs; }},  // by night, as the next
      {"no gain", [](int64_t n) { return n * 20 * kUs; }},
  };
  size_t left = std::getenv("INFER_BY_NIGHT") ? std::size(models) : 2;
  for (const auto& [name, run_ns] : models) {
    if (left-- == 0) break;
    int64_t best = 0, fixed = 0;
    for (int64_t rows : {1, 4, 16}) {
      const Throughput f = Of({.max_rows = rows}, run_ns, 32);
      fixed = f.answered;
      best = std::max(best, f.at_last);
    }
    const Throughput t = Of({.max_rows = 16, .adapts = true}, run_ns, 32);
    EXPECT_GE(static_cast<double>(t.answered), 0.97 * static_cast<double>(fixed)) << name;
    EXPECT_GE(static_cast<double>(t.at_last), 0.97 * static_cast<double>(best)) << name;
  }
}

TEST(BatchTrials, CountersSayWhyRunsAreSmall) {
  const Throughput t = Of(
      {.max_rows = 8, .adapts = true}, [](int64_t n) { return n == 1 ? 100'000 : n * 200'000; }, 8);
  EXPECT_GT(t.stats.fired[static_cast<size_t>(Fired::kTrial)], 10);
  EXPECT_GT(t.stats.fired[static_cast<size_t>(Fired::kEnough)], 500);
  EXPECT_GT(t.stats.single[static_cast<size_t>(Single::kTried)], 5);
  EXPECT_GT(t.stats.single[static_cast<size_t>(Single::kSlower)], 500);
}

}  // namespace
}  // namespace infer::engine
