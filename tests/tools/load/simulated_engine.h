#pragma once
/// An engine in virtual time: lanes that take the times that a function names, first come, first
/// served.
#include <algorithm>
#include <functional>
#include <map>

#include "tools/infer_bench/load/engine.h"

namespace infer::bench {

class SimulatedEngine : public Engine {
 public:
  /// Milliseconds that a query takes when it begins at `start_ms`.
  using Service = std::function<double(double start_ms, int64_t samples)>;
  SimulatedEngine(int lanes, Service service)
      : free_(static_cast<size_t>(lanes), 0.0), service_(std::move(service)) {}
  int lanes() const override { return static_cast<int>(free_.size()); }
  double NowMs() override { return now_ms; }
  void Submit(int64_t id, int64_t samples) override {
    double& lane = *std::min_element(free_.begin(), free_.end());
    const double start = std::max(lane, now_ms);
    lane = start + service_(start, samples);
    pending_.emplace(lane, Done{id, start, lane, {}});
  }
  std::vector<Done> Wait(double until_ms) override {
    double to = std::max(now_ms, until_ms);
    if (!pending_.empty()) to = std::min(to, std::max(now_ms, pending_.begin()->first));
    now_ms = to;
    std::vector<Done> done;
    while (!pending_.empty() && pending_.begin()->first <= now_ms) {
      done.push_back(pending_.begin()->second);
      pending_.erase(pending_.begin());
    }
    if (at_time) at_time(now_ms);
    return done;
  }
  void Abandon() override {
    pending_.clear();
    std::fill(free_.begin(), free_.end(), now_ms);
  }

  double now_ms = 0;
  std::function<void(double now_ms)> at_time = {};

 private:
  std::vector<double> free_;  // when each lane has nothing more to do
  Service service_;
  std::multimap<double, Done> pending_;
};

/// Always `ms`, but a query that begins within the pause ends that much behind it.
inline SimulatedEngine::Service WithPause(double ms, double from_ms, double pause_ms) {
  return [=](double start, int64_t) {
    const double to_ms = from_ms + pause_ms;
    return start + ms > from_ms && start < to_ms ? to_ms + ms - start : ms;
  };
}

}  // namespace infer::bench
