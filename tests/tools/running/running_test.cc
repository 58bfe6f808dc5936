/// Runs side by side: lanes, stopping, and what they wait for.
#include <dirent.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <limits>
#include <thread>

#include "lib/ir/text.h"
#include "lib/support/measure.h"
#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "tests/tools/test_models.h"

namespace infer {
namespace {

std::shared_ptr<const Program> Compiled(const Graph& g, int threads) {
  auto program = MakeCpuBackend()->Compile(g, {.threads = threads});
  EXPECT_TRUE(program.ok()) << program.status().message();
  return *program;
}

Graph Parsed(const std::string& text) {
  auto g = ParseGraph(text, Ops());
  EXPECT_TRUE(g.ok()) << g.status().message();
  return *std::move(g);
}

/// `n` convolutions, one after the other.
Graph Chain(int n, int channels, int side) {
  std::string text = Cat("graph g(v0: f32[1,", channels, ",", side, ",", side, "]) -> (v", n,
                         ": f32[1,", channels, ",", side, ",", side, "]) {\n");
  for (int i = 0; i < n; ++i)
    text += Cat("  w", i, " = const f32[", channels, ",", channels, ",3,3] ~", i + 1, "\n  v",
                i + 1, " = Conv(v", i, ", w", i, ") {pads=[1,1,1,1]}\n");
  return Parsed(text + "}");
}

std::unique_ptr<RunContext> Ready(const Program& program, const Graph& g) {
  auto context = program.NewContext();
  EXPECT_TRUE(context.ok()) << context.status().message();
  const auto inputs = RandomModelInputs(g, 0);
  for (size_t i = 0; i < inputs->size(); ++i)
    EXPECT_TRUE((*context)->BindInput(i, (*inputs)[i]).ok());
  EXPECT_TRUE((*context)->Run().ok());
  return *std::move(context);
}

std::vector<std::string> Tasks() {
  std::vector<std::string> ids;
  DIR* dir = ::opendir("/proc/self/task");
  if (!dir) return ids;
  while (const dirent* e = ::readdir(dir))
    if (e->d_name[0] != '.') ids.emplace_back(e->d_name);
  ::closedir(dir);
  return ids;
}

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
TEST(Running, FourRunsKeepToABudgetOfTwo) {
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

TEST(Running, SmallStepsStartNoThreads) {
  SetLaneBudget(4);
  const Graph g = Parsed(R"(graph g(x: f32[1,8,16,16]) -> (y: f32[1,10]) {
    a = Relu(x)
    s = Add(a, x)
    p = GlobalAveragePool(s)
    f = Flatten(p)
    w = const f32[8,10] ~1
    m = MatMul(f, w)
    y = Softmax(m)
  })");
  std::thread([&] {
    const size_t before = Tasks().size();
    const auto run = Ready(*Compiled(g, 4), g);
    EXPECT_TRUE(run->Run().ok());
    EXPECT_EQ(Tasks().size(), before);
  }).join();
  SetLaneBudget(AvailableCores());
}

/// From the request to the end of the run: less than the longest step takes. On a busy machine one
/// of several attempts has to show it: others may find the run at its end already, or a step that
/// waited for its processor.
TEST(Running, StopsWithinOneStep) {
  const Graph g = Chain(40, 128, 56);
  const auto program = Compiled(g, 1);
  const auto run = Ready(*program, g);
  double least = 1e30, longest = 0, whole = 0;
  bool shown = false;
  for (int attempt = 0; attempt < 20 && !shown; ++attempt) {
    ASSERT_TRUE(run->Run({.profile = true}).ok());
    longest = whole = 0;
    for (const StepTiming& t : run->profile()) {
      longest = std::max(longest, t.duration_ms);
      whole += t.duration_ms;
    }
    std::stop_source source;
    Status status;
    std::chrono::steady_clock::time_point ended;
    std::thread runner([&] {
      status = run->Run({.stop = source.get_token()});
      ended = std::chrono::steady_clock::now();
    });
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(whole / 3));
    const auto asked = std::chrono::steady_clock::now();
    source.request_stop();
    runner.join();
    if (status.ok()) continue;
    ASSERT_EQ(status.code(), Code::kCancelled) << status.message();
    least = std::chrono::duration<double, std::milli>(ended - asked).count();
    shown = least < longest && longest < whole / 10;
  }
  std::cout << "stopped after " << Fixed(least, 3) << " ms; the longest step takes "
            << Fixed(longest, 3) << " ms, the run " << Fixed(whole, 1) << " ms\n";
  EXPECT_TRUE(shown);
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
TEST(Running, TwoProgramsDoNotWaitForEachOther) {
  SetLaneBudget(2);
  const Graph g = Chain(8, 32, 28);
  const std::shared_ptr<const Program> programs[2] = {Compiled(g, 1), Compiled(g, 1)};
  const std::unique_ptr<RunContext> a = Ready(*programs[0], g), b = Ready(*programs[1], g);
  constexpr double kMs = 400;
  double kept = 0;
  int64_t waits = std::numeric_limits<int64_t>::max();
  for (int attempt = 0; attempt < 8 && (kept < 0.9 || waits > 5); ++attempt) {
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

}  // namespace
}  // namespace infer
