#pragma once
/// A compiled model as an engine: a first-in, first-out queue and lanes, each a thread with a
/// RunContext of its own.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/api/program.h"
#include "tools/infer_bench/load/engine.h"

namespace infer::bench {

class ModelEngine : public Engine {
 public:
  /// Every lane has run once when this returns. A run answers `batch` samples; a query of more is
  /// spread over the lanes. `stop` ends runs early.
  static Result<std::unique_ptr<ModelEngine>> Make(std::shared_ptr<const Program> program,
                                                   const std::vector<Datum>& inputs, int64_t batch,
                                                   int lanes, std::stop_token stop);
  ~ModelEngine() override;
  int lanes() const override { return static_cast<int>(contexts_.size()); }
  double NowMs() override;
  void Submit(int64_t id, int64_t samples) override;
  std::vector<Done> Wait(double until_ms) override;
  void Abandon() override;

 private:
  struct Query {
    int64_t to_start = 0, to_finish = 0;  // runs
    double started_ms = -1;
    std::list<Done> done;  // one: a lane has its place and need not allocate, which may throw
  };
  ModelEngine(std::shared_ptr<const Program> program, int64_t batch, std::stop_token stop)
      : program_(std::move(program)), batch_(batch), stop_(std::move(stop)) {}
  void Work(RunContext& run);

  std::shared_ptr<const Program> program_;
  int64_t batch_;
  std::stop_token stop_;
  std::chrono::steady_clock::time_point origin_ = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<RunContext>> contexts_;

  std::mutex mutex_;
  std::condition_variable work_, answered_;
  std::deque<std::shared_ptr<Query>> queue_;  // those of which runs have not begun
  std::list<Done> done_;
  int busy_ = 0;  // lanes that run
  bool closing_ = false;
  std::vector<std::jthread> threads_;  // last: they use all the others
};

}  // namespace infer::bench
