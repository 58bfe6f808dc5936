#pragma once
/// What tests of the engine on real threads share.
#include <gtest/gtest.h>

#include <thread>

#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {

inline std::unique_ptr<Engine> Made(int threads = 2) {
  auto engine = Engine::Make({.threads = threads});
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return *std::move(engine);
}

inline Request For(float value, int64_t rows = 1) {
  return {.model = "m", .inputs = {Filled(value, rows)}};
}

/// Runs wait at it until it is opened or their run is stopped.
class Gate {
 public:
  RunHook hook() {
    return [this](const std::vector<Datum>&, const RunOptions& options) {
      ++arrived_;
      arrived_.notify_all();
      while (!open_ && !options.stop.stop_requested())
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      ++gone_;
      gone_.notify_all();
      return options.stop.stop_requested() ? Cancelled("the run was stopped") : Status();
    };
  }
  void Open() { open_ = true; }
  void Await(int runs) {
    for (int n = arrived_; n < runs; n = arrived_) arrived_.wait(n);
  }
  /// Of all that had arrived.
  void AwaitGone() {
    for (int n = gone_; n < arrived_; n = gone_) gone_.wait(n);
  }

 private:
  std::atomic<bool> open_{false};
  std::atomic<int> arrived_{0}, gone_{0};
};

inline ModelStats StatsOf(const Engine& engine) {
  const auto all = engine.Stats();
  return all.empty() ? ModelStats() : all[0];
}

}  // namespace infer::engine
