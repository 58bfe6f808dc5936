/// Runs: the threads they start, and how they stop. What needs a clock: tests/tools/timing.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "lib/support/measure.h"
#include "lib/support/parallel.h"
#include "tests/tools/programs.h"

namespace infer {
namespace {

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

/// A stop that is asked for while a run is under way is seen before the next step: at most the one
/// that had just been decided on begins after it.
TEST(Running, NoStepBeginsAfterAStop) {
  const Graph g = Chain(40, 128, 56);
  const auto program = Compiled(g, 1);
  const auto run = Ready(*program, g);
  Status status;
  double asked_ms = 0;
  // A run may be over before the request is made, where that waits for a processor; then nothing
  // was asked.
  while (status.ok()) {
    std::stop_source source;
    const auto begin = std::chrono::steady_clock::now();
    std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      source.request_stop();
      asked_ms = MsSince(begin);
    });
    status = run->Run({.profile = true, .stop = source.get_token()});
  }
  ASSERT_EQ(status.code(), Code::kCancelled) << status.message();
  EXPECT_LT(run->profile().size(), program->steps().size());
  EXPECT_LE(std::count_if(run->profile().begin(), run->profile().end(),
                          [&](const StepTiming& t) { return t.start_ms > asked_ms; }),
            1);
}

}  // namespace
}  // namespace infer
