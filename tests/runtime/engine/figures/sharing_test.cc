/// Models that share the cores, and urgent requests beside others.
#include <sched.h>

#include <algorithm>
#include <filesystem>

#include "lib/support/parallel.h"
#include "tests/runtime/engine/figures/figures.h"

namespace infer::engine::figures {
namespace {

/// Threads of this process that run or could, without the one that asks.
int RunnableThreads() {
  const std::string self = Cat(::gettid());
  int n = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream f(task.path() / "stat");
    std::string line;
    if (task.path().filename() == self || !std::getline(f, line)) continue;
    const size_t end = line.rfind(')');
    n += end != std::string::npos && end + 2 < line.size() && line[end + 2] == 'R';
  }
  return n;
}

struct Shared {
  std::string name;
  SizedModel model;
  ModelSource on_all_lanes;
  Request request(const std::string& as) const { return {.model = as, .inputs = model.inputs}; }
};

std::vector<Shared> FourModels() {
  std::vector<Shared> all;
  const std::tuple<double, int64_t, int> shapes[] = {
      {1, 1, 512}, {2, 16, 256}, {4, 64, 256}, {8, 128, 384}};
  for (const auto& [ms, rows, width] : shapes) {
    Shared s{Cat("of ", ms, " ms"), ChainOfMs(ms, rows, width), {}};
    s.on_all_lanes = CompiledFor(s.model.graph, LaneBudget());
    all.push_back(std::move(s));
  }
  return all;
}

/// Throughputs of one round: each model with all cores to itself, by one run after the other on all
/// lanes and by runs side by side; then all together.
struct Round {
  std::vector<double> alone, together;
  double split = 0;  ///< BestSplit
  /// Rates together as shares of those alone, added up over the models. Of shares of time in
  /// which each has all cores and caches this is 1.
  double sum() const {
    double s = 0;
    for (size_t i = 0; i < alone.size(); ++i) s += together[i] / alone[i];
    return s;
  }
};

/// Threads of bare runs, one for each model, kept to the cores that `core_of` gives them: the sum
/// of what each gets as a share of `alone`.
double SplitSum(const std::vector<Shared>& models, const std::vector<double>& alone,
                const std::vector<int>& core_of) {
  std::vector<std::unique_ptr<RunContext>> contexts;
  for (const Shared& m : models) contexts.push_back(ContextOf(m.model.source, m.model.inputs));
  std::atomic<bool> ends{false};
  std::vector<int64_t> runs(models.size());
  std::vector<std::thread> threads;
  const auto start = Steady::now();
  for (size_t i = 0; i < models.size(); ++i)
    threads.emplace_back([&, i] {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(core_of[i], &set);
      EXPECT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
      for (; !ends; ++runs[i]) EXPECT_TRUE(contexts[i]->Run().ok());
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ends = true;
  for (std::thread& t : threads) t.join();
  const double s = MsSince(start) / 1e3;
  double sum = 0;
  for (size_t i = 0; i < models.size(); ++i) sum += static_cast<double>(runs[i]) / s / alone[i];
  return sum;
}

/// The best of all ways to give each model a core of its own or a shared one, without an engine:
/// models on one core share its caches, and what the first leaves there the second evicts.
double BestSplit(const std::vector<Shared>& models, const std::vector<double>& alone) {
  cpu_set_t allowed;
  EXPECT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<int> cores;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &allowed)) cores.push_back(c);
  if (cores.size() < 2) return 1;
  double best = 0;
  for (uint32_t split = 1; split < (1U << models.size()) / 2; ++split) {
    std::vector<int> core_of;
    for (size_t i = 0; i < models.size(); ++i) core_of.push_back(cores[(split >> i) & 1]);
    best = std::max(best, SplitSum(models, alone, core_of));
  }
  return best;
}

Round MeasureRound(Engine& engine, const std::vector<Shared>& models, std::vector<int>& runnable) {
  const int in_flight = 2 * LaneBudget();
  Round r;
  for (const Shared& m : models)
    r.alone.push_back(
        std::max(ClosedLoop(engine, m.request(m.name), in_flight).RateFor(0.4),
                 ClosedLoop(engine, m.request(m.name + ", all lanes"), in_flight).RateFor(0.4)));
  std::vector<std::unique_ptr<ClosedLoop>> loops;
  for (const Shared& m : models)
    loops.push_back(std::make_unique<ClosedLoop>(engine, m.request(m.name), in_flight));
  for (const auto& l : loops) l->Begin();
  std::vector<int64_t> before;
  const auto start = Steady::now();
  for (const auto& l : loops) before.push_back(l->answered());
  while (MsSince(start) < 1500) {
    runnable.push_back(RunnableThreads());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const double s = MsSince(start) / 1e3;
  for (size_t i = 0; i < loops.size(); ++i)
    r.together.push_back(static_cast<double>(loops[i]->answered() - before[i]) / s);
  for (const auto& l : loops) l->End();
  r.split = BestSplit(models, r.alone);
  return r;
}

/// Demanded: together at least 0.95 of the best static split of two cores, on no more threads than
/// cores.
TEST(EngineFigures, FourModelsTogether) {
  const std::vector<Shared> models = FourModels();
  const auto engine = EngineOf(LaneBudget());
  for (const Shared& m : models) {
    ASSERT_TRUE(engine
                    ->Load(m.name, m.model.source,
                           {.instances = LaneBudget(), .warm_inputs = m.model.inputs})
                    .ok());
    ASSERT_TRUE(
        engine->Load(m.name + ", all lanes", m.on_all_lanes, {.warm_inputs = m.model.inputs}).ok());
  }
  std::vector<double> sums, splits, ratios;
  std::vector<int> runnable;
  std::vector<std::vector<double>> shares(models.size());
  for (int round = 0; round < 7; ++round) {
    const Round r = MeasureRound(*engine, models, runnable);
    sums.push_back(r.sum());
    splits.push_back(r.split);
    ratios.push_back(r.sum() / r.split);
    for (size_t i = 0; i < models.size(); ++i) shares[i].push_back(r.together[i] / r.alone[i]);
  }
  std::sort(runnable.begin(), runnable.end());
  const int most = runnable[runnable.size() * 95 / 100];
  Tell("four models together: ", Rounded(Quantile(ratios, 0.5), 3), " of the best static split (",
       Rounded(Quantile(ratios, 0), 3), " to ", Rounded(Quantile(ratios, 1), 3),
       "); of what each has alone ", Rounded(Quantile(sums, 0.5), 3), ", split ",
       Rounded(Quantile(splits, 0.5), 3), "; cores: ", LaneBudget(),
       ", threads that ran or could: median ", runnable[runnable.size() / 2], ", p95 ", most,
       ", most ", runnable.back());
  for (size_t i = 0; i < models.size(); ++i)
    Tell("  the model ", models[i].name, " gets ", Percent(Quantile(shares[i], 0.5)));
  EXPECT_GE(Quantile(ratios, 0.5), 0.95);
  // A thread that is about to sleep, or has just been woken, is counted besides.
  EXPECT_LE(runnable[runnable.size() / 2], LaneBudget());
}

/// Demanded: p99 of urgent requests at most 1.5 times what it is alone, and one launch of the
/// others; the others go on.
TEST(EngineFigures, UrgentRequestsBesideOthers) {
  const SizedModel high = ChainOfMs(3, 32, 256), low = ChainOfMs(20, 256, 256);
  const double launch_ms = LongestLaunchMs(low.source, low.inputs);
  const auto engine = EngineOf(LaneBudget());
  ASSERT_TRUE(engine->Load("high", high.source, {.instances = 2, .warm_inputs = high.inputs}).ok());
  ASSERT_TRUE(engine->Load("low", low.source, {.instances = 4, .warm_inputs = low.inputs}).ok());
  const Request urgent{.model = "high", .inputs = high.inputs, .priority = Priority::kHigh};
  const Request other{.model = "low", .inputs = low.inputs, .priority = Priority::kLow};
  const double rate = 0.3 * LaneBudget() * 1e3 / high.bare_ms;
  Answers alone, beside;
  std::vector<double> low_rates;
  const double low_alone = ClosedLoop(*engine, other, 8).RateFor(2);
  for (int part = 0; part < 10; ++part) {
    const auto seed = static_cast<uint64_t>(part);
    alone.Add(OpenLoop(*engine, urgent, rate, seed).RunFor(2));
    ClosedLoop others(*engine, other, 8);
    others.Begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto start = Steady::now();
    const int64_t before = others.answered();
    beside.Add(OpenLoop(*engine, urgent, rate, seed).RunFor(2));
    low_rates.push_back(static_cast<double>(others.answered() - before) / MsSince(start) * 1e3);
    others.End();
    EXPECT_EQ(others.failed(), 0);
  }
  const double p99 = Quantile(beside.ms, 0.99), p99_alone = Quantile(alone.ms, 0.99);
  Tell("urgent requests, runs of ", Ms(high.bare_ms),
       ", 30 % of capacity, beside saturating runs of ", Ms(low.bare_ms), ", longest launch ",
       Ms(launch_ms), ": p50 ", Ms(Quantile(beside.ms, 0.5)), " (alone ",
       Ms(Quantile(alone.ms, 0.5)), "), p99 ", Ms(p99), " (alone ", Ms(p99_alone), "), allowed ",
       Ms(1.5 * p99_alone + launch_ms));
  Tell("  the others: least ", Rounded(Quantile(low_rates, 0), 3), ", median ",
       Rounded(Quantile(low_rates, 0.5), 3), " answers a second of ", Rounded(low_alone, 3),
       " alone");
  EXPECT_EQ(beside.of(State::kSucceeded), beside.came());
  EXPECT_LE(p99, 1.5 * p99_alone + launch_ms);
  EXPECT_GT(Quantile(low_rates, 0), 0.05 * low_alone) << "the others starve";
}

/// Urgent requests that would take all cores by themselves: the others still get their turn, once
/// they have waited for twice EngineOptions::ageing_ns.
TEST(EngineFigures, OthersDoNotStarve) {
  constexpr double kAgeingMs = 200, kMeasuredMs = 10'000;
  const SizedModel high = ChainOfMs(3, 32, 256), low = ChainOfMs(6, 64, 256);
  auto made =
      Engine::Make({.threads = LaneBudget(), .ageing_ns = static_cast<int64_t>(kAgeingMs * 1e6)});
  ASSERT_TRUE(made.ok());
  const auto engine = *std::move(made);
  ASSERT_TRUE(engine->Load("high", high.source, {.instances = 2, .warm_inputs = high.inputs}).ok());
  ASSERT_TRUE(engine->Load("low", low.source, {.instances = 2, .warm_inputs = low.inputs}).ok());
  const Request other{.model = "low", .inputs = low.inputs, .priority = Priority::kLow};
  const double alone = ClosedLoop(*engine, other, 4).RateFor(1);
  ClosedLoop urgent(*engine, {.model = "high", .inputs = high.inputs, .priority = Priority::kHigh},
                    8);
  ClosedLoop others(*engine, other, 4);
  const int64_t before = others.answered();
  urgent.Begin();
  others.Begin();
  const auto start = Steady::now();
  double last_ms = 0, longest_ms = 0;
  for (int64_t seen = before; MsSince(start) < kMeasuredMs;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (others.answered() > seen) {
      longest_ms = std::max(longest_ms, MsSince(start) - last_ms);
      last_ms = MsSince(start);
      seen = others.answered();
    }
  }
  longest_ms = std::max(longest_ms, MsSince(start) - last_ms);
  const double rate = static_cast<double>(others.answered() - before) / MsSince(start) * 1e3;
  urgent.End();
  others.End();
  Tell("low priority beside 8 urgent requests at any time, ageing by ", kAgeingMs,
       " ms: ", Rounded(rate, 3), " answers a second (alone ", Rounded(alone, 3),
       "), longest time without one ", Ms(longest_ms), "; urgent ones ",
       Rounded(static_cast<double>(urgent.answered()) / kMeasuredMs * 1e3, 3), " a second");
  // In the queue for twice the ageing, then the run, whose lanes are taken away between launches.
  EXPECT_LE(longest_ms, 2 * kAgeingMs + 2000);
}

}  // namespace
}  // namespace infer::engine::figures
