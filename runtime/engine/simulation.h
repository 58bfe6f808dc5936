#pragma once
/// Virtual time and one thread in the place of clock and threads: an engine under it does in no
/// time, and in an order that a seed decides, what it would do in hours. What is due at one moment
/// is done in any order.
#include <map>
#include <tuple>

#include "lib/support/random.h"
#include "runtime/engine/executor.h"

namespace infer::engine {

/// Used by one thread. Nothing that runs in it may wait for another task of it.
class Simulation final : public Clock, public Executor {
 public:
  Simulation(uint64_t seed, int width) : random_(seed), width_(width) {}
  int64_t NowNs() const override { return now_ns_; }
  int width() const override { return width_; }
  void Post(Task task, Place /*place*/) override { At(now_ns_, std::move(task)); }
  void Run(Task work, Task then) override;
  void Deliver(Task task) override { At(now_ns_, std::move(task)); }
  void WakeAt(int64_t ns, Task task) override { At(ns, std::move(task)); }

  /// What happens at `ns`; before now: now.
  void At(int64_t ns, Task task);
  /// Said by the work of Run: so long it takes.
  void Elapse(int64_t ns) { elapsed_ns_ += ns; }
  /// Until nothing is left to happen.
  void RunAll();

 private:
  Random random_;
  int width_;
  int64_t now_ns_ = 0, elapsed_ns_ = 0, count_ = 0;
  std::map<std::tuple<int64_t, uint32_t, int64_t>, Task> tasks_;  // by moment, then at random
};

}  // namespace infer::engine
