/// Runs side by side: lanes, stopping, and what they wait for.
#include <dirent.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
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

/// Two programs of one lane each, at once: none waits for the other, and both keep their pace where
/// there are two processors. Other processes on them only lengthen runs, so that the shortest
/// counts.
TEST(Running, TwoProgramsDoNotWaitForEachOther) {
  SetLaneBudget(2);
  const Graph g = Chain(8, 32, 28);
  std::unique_ptr<RunContext> runs[2];
  const std::shared_ptr<const Program> programs[2] = {Compiled(g, 1), Compiled(g, 1)};
  for (int i = 0; i < 2; ++i) runs[i] = Ready(*programs[i], g);
  constexpr double kMs = 500;
  double worst = 0;
  int64_t waits = 0;
  for (int attempt = 0; attempt < 8 && worst < 0.9; ++attempt) {
    Pace alone[2], together[2];
    for (int i = 0; i < 2; ++i) alone[i] = PaceOf(*runs[i], kMs / 2);
    std::thread other([&] { together[1] = PaceOf(*runs[1], kMs); });
    together[0] = PaceOf(*runs[0], kMs);
    other.join();
    worst = 1e30;
    for (int i = 0; i < 2; ++i) {
      const double share = alone[i].ms / together[i].ms;
      std::cout << "program " << i << ": alone " << Fixed(alone[i].ms, 4)
                << " ms, beside the other " << Fixed(together[i].ms, 4)
                << " ms: " << Fixed(share, 3) << " of its pace, " << together[i].waits
                << " waits\n";
      worst = std::min(worst, share);
      waits = std::max(waits, together[i].waits);
    }
  }
  // Some hundred runs with no lock that is ever taken by both; the kernel's own reasons to wait
  // (a page, the terminal) are rare.
  EXPECT_LE(waits, 5);
  if (AvailableCores() >= 2) {
    EXPECT_GE(worst, 0.9);
  }
  SetLaneBudget(AvailableCores());
}

}  // namespace
}  // namespace infer
