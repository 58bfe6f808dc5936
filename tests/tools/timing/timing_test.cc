/// Properties that only a clock can show, on a machine that does nothing else: lanes of runs side
/// by side, what a profile explains and costs, the roofline.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <thread>

#include "lib/support/measure.h"
#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "tests/tools/programs.h"
#include "tools/common/profile.h"
#include "tools/common/signals.h"

namespace infer {
namespace {

constexpr double kMostUnexplained = 0.02, kMostOverhead = 1.03;

/// Threads of this process that run or could, other than `self`.
int Runnable(const std::string& self) {
  int n = 0;
  for (const std::string& id : Tasks()) {
    std::ifstream f(Cat("/proc/self/task/", id, "/stat"));
    std::string line;
    if (id == self || !std::getline(f, line)) continue;
    const size_t end = line.rfind(')');
    n += end != std::string::npos && end + 2 < line.size() && line[end + 2] == 'R';
  }
  return n;
}

/// Reading the states takes time in which they change: a count can be one too high or low, most are
/// not.
TEST(Timing, FourRunsKeepToABudgetOfTwo) {
  SetLaneBudget(2);
  const Graph g = Chain(12, 64, 28);
  const auto program = Compiled(g, 2);
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const auto run = Ready(*program, g);
      while (!done) EXPECT_TRUE(run->Run().ok());
    });
  std::vector<int> counts;
  std::thread sampler([&] {
    const std::string self = Cat(::gettid());
    const auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // plans and packs
    while (MsSince(start) < 2200) {
      const int n = Runnable(self);
      if (n >= static_cast<int>(counts.size())) counts.resize(static_cast<size_t>(n) + 1);
      ++counts[static_cast<size_t>(n)];
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    done = true;
  });
  for (std::thread& t : threads) t.join();
  sampler.join();
  int all = 0, above = 0;
  for (size_t n = 0; n < counts.size(); ++n) {
    std::cout << n << " runnable: " << counts[n] << " samples\n";
    all += counts[n];
    above += n > 2 ? counts[n] : 0;
  }
  EXPECT_GT(all, 20);
  EXPECT_LE(above, all / 10);
  SetLaneBudget(AvailableCores());
}

/// Every command has one: it waits for no tick.
TEST(Timing, AGuardOfSignalsEndsAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 40; ++i) const SignalGuard guard;
  EXPECT_LT(MsSince(start), 1000);
}

int64_t VoluntarySwitches() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

/// The shortest of `n` runs, and how often the thread gave up its processor to wait.
struct Pace {
  double ms = 1e30;
  int64_t waits = 0;
};
Pace PaceOf(RunContext& run, double for_ms) {
  Pace pace;
  const int64_t before = VoluntarySwitches();
  const auto begin = std::chrono::steady_clock::now();
  while (MsSince(begin) < for_ms) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(run.Run().ok());
    pace.ms = std::min(pace.ms, MsSince(start));
  }
  pace.waits = VoluntarySwitches() - before;
  return pace;
}

/// The paces of two runs at the same time, in two threads of this process.
std::array<Pace, 2> InThreads(RunContext& a, RunContext& b, double for_ms) {
  std::array<Pace, 2> paces;
  std::thread other([&] { paces[1] = PaceOf(b, for_ms); });
  paces[0] = PaceOf(a, for_ms);
  other.join();
  return paces;
}

/// The same in two processes, which share no lock: `b` runs in a copy of this one.
std::array<Pace, 2> InProcesses(RunContext& a, RunContext& b, double for_ms) {
  std::array<Pace, 2> paces;
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Pace pace = PaceOf(b, for_ms);
    const bool written = ::write(ends[1], &pace, sizeof(pace)) == sizeof(pace);
    ::_exit(written ? 0 : 1);
  }
  EXPECT_GT(child, 0);
  paces[0] = PaceOf(a, for_ms);
  EXPECT_EQ(::read(ends[0], &paces[1], sizeof(Pace)), static_cast<ssize_t>(sizeof(Pace)));
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(ends[0]);
  ::close(ends[1]);
  return paces;
}

/// Two programs of one lane each, at once: none waits for the other, and both keep the pace that
/// they have in processes of their own. That pace, not the one alone, is what is asked: two
/// processors may be two halves of one core. Other processes only lengthen runs, so that the
/// shortest counts.
TEST(Timing, TwoProgramsDoNotWaitForEachOther) {
  SetLaneBudget(2);
  const Graph g = Chain(8, 32, 28);
  const std::shared_ptr<const Program> programs[2] = {Compiled(g, 1), Compiled(g, 1)};
  const std::unique_ptr<RunContext> a = Ready(*programs[0], g), b = Ready(*programs[1], g);
  constexpr double kMs = 400;
  double kept = 0;
  int64_t waits = std::numeric_limits<int64_t>::max();
  for (int round = 0; round < 8; ++round) {
    const double alone = PaceOf(*a, kMs / 2).ms;
    const auto apart = InProcesses(*a, *b, kMs);
    const auto together = InThreads(*a, *b, kMs);
    const double share =
        std::max(apart[0].ms, apart[1].ms) / std::max(together[0].ms, together[1].ms);
    kept = std::max(kept, share);
    waits = std::min(waits, std::max(together[0].waits, together[1].waits));
    std::cout << "alone " << Fixed(alone, 4) << " ms, beside the other " << Fixed(apart[0].ms, 4)
              << " and " << Fixed(apart[1].ms, 4) << " ms in two processes, "
              << Fixed(together[0].ms, 4) << " and " << Fixed(together[1].ms, 4)
              << " ms in one: " << Fixed(share, 3) << " of that pace, " << together[0].waits << ", "
              << together[1].waits << " waits\n";
  }
  // Some hundred runs with no lock that is ever taken by both; the kernel's own reasons to wait
  // (a page, the terminal) are rare.
  EXPECT_LE(waits, 5);
  if (AvailableCores() >= 2) {
    EXPECT_GE(kept, 0.9);
  }
  SetLaneBudget(AvailableCores());
}

double RunMs(RunContext& run, bool profile) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(run.Run({.profile = profile}).ok());
  return MsSince(start);
}

TEST(Timing, AProfileExplainsTheTime) {
  const CompiledModel c = CompiledZoo("resnet18");
  const auto p = ProfileRuns("resnet18", *c.program, *c.run, {});
  ASSERT_TRUE(p.ok()) << p.status().message();
  std::cout << p->Headline();
  EXPECT_GT(p->wall_ms, 5);
  EXPECT_LE(p->unexplained, kMostUnexplained);
  EXPECT_GE(p->unexplained, 0);
}

/// Many short steps are the hardest. The shortest run of each kind is compared, for other processes
/// only lengthen runs.
TEST(Timing, AProfileCostsLittle) {
  const CompiledModel c = CompiledZoo("mobilenetv3-small");
  double with = 1e30, without = 1e30;
  constexpr int kPairs = 400;
  for (int pair = 0; pair < kPairs; ++pair)
    for (bool profile : {pair % 2 == 0, pair % 2 != 0}) {
      double& best = profile ? with : without;
      best = std::min(best, RunMs(*c.run, profile));
    }
  std::cout << "profiled " << Fixed(with, 4) << " ms, else " << Fixed(without, 4)
            << " ms: " << Fixed(with / without, 4) << " x, of " << kPairs << " pairs\n";
  EXPECT_LE(with, kMostOverhead * without);
}

TEST(Timing, ARooflineIsMeasuredOnceAndQuickly) {
  const Roofline& r = MeasuredRoofline(1);
  std::cout << r.ToString() << " in " << Fixed(r.measured_ms, 0) << " ms\n";
  EXPECT_EQ(&r, &MeasuredRoofline(1));
  EXPECT_EQ(r.lanes, 1);
  // Sanitized loops are slow, and slower than memory.
  const bool sanitized = std::getenv("INFER_SANITIZED") != nullptr;
  // Below any 64-bit processor with vectors, and above what one could ever do.
  EXPECT_GT(r.f32_gflops, sanitized ? 0 : 1);
  EXPECT_LT(r.f32_gflops, 2000);
  EXPECT_GE(r.int8_gops, r.f32_gflops);
  ASSERT_GE(r.levels.size(), 3u);
  EXPECT_EQ(r.levels.back().name, "memory");
  if (!sanitized) {
    EXPECT_GT(r.levels.front().gb_per_s, r.levels.back().gb_per_s);
  }
}

/// A network of many launches and 24 sizes that it has seen: what stands around its steps after a
/// switch, in microseconds (the median; and beside it, without a switch).
TEST(Timing, SwitchingBetweenKnownShapes) {
  const auto model = MakeZooModel("mobilenetv3-small", {.batch = 0, .resolution = 32}, Ops());
  ASSERT_TRUE(model.ok()) << model.status().message();
  auto program = MakeCpuBackend()->Compile(model->graph, {.threads = 1});
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto run = *(*program)->NewContext();
  std::vector<Dims> dims;
  for (int64_t n = 1; n <= 24; ++n) dims.push_back({n, 3, 32, 32});
  const std::vector<Datum> inputs = RandomInputs(dims);
  std::vector<double> first, switched, same;
  for (int round = 0; round < 12; ++round)
    for (const Datum& x : inputs)
      for (bool again : {false, true}) {
        ASSERT_TRUE(run->BindInput(0, x).ok());
        const auto start = std::chrono::steady_clock::now();
        ASSERT_TRUE(run->Run({.profile = true}).ok());
        double outside = MsSince(start);
        for (const StepTiming& t : run->profile()) outside -= t.duration_ms;
        (again ? same : round == 0 ? first : switched).push_back(1e3 * outside);
      }
  std::cout << "around the steps: " << Fixed(Quantile(switched, 0.5), 1) << " us after a switch, "
            << Fixed(Quantile(same, 0.5), 1) << " us without, " << Fixed(Quantile(first, 0.5), 1)
            << " us where the size is new\n";
  EXPECT_LE(Quantile(switched, 0.5), 50);
  EXPECT_GT(Quantile(first, 0.5), Quantile(switched, 0.5));
}

}  // namespace
}  // namespace infer
