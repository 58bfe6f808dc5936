#include "tools/infer_bench/load/model_engine.h"

#include <atomic>

#include "tools/infer_bench/load/drive.h"

namespace infer::bench {
namespace {

using std::chrono::milliseconds;

/// A program whose runs sleep.
class Sleeper : public Program, public std::enable_shared_from_this<Sleeper> {
 public:
  explicit Sleeper(int ms) : ms_(ms) {}
  const std::vector<Value*>& inputs() const override { return none_; }
  const std::vector<Value*>& outputs() const override { return none_; }
  const std::vector<StepInfo>& steps() const override { return steps_; }
  Result<std::vector<Cost>> CostsFor(std::span<const Dims>) const override {
    return std::vector<Cost>();
  }
  Result<std::unique_ptr<RunContext>> NewContext() const override;

  std::atomic<int> ms_;
  std::atomic<bool> fails{false};
  std::atomic<int> together{0};            ///< a run waits until so many have been at work at once
  std::atomic<int> slow_run{-1}, slow_ms;  ///< this one, counted from 0, takes longer
  mutable std::atomic<int> runs{0}, now{0}, most{0};

 private:
  std::vector<Value*> none_;
  std::vector<StepInfo> steps_;
};

class SleeperRun : public RunContext {
 public:
  explicit SleeperRun(std::shared_ptr<const Sleeper> program) : program_(std::move(program)) {}
  Status BindInput(size_t, Datum) override { return {}; }
  Status BindOutput(size_t, Tensor) override { return {}; }
  Status Run(const RunOptions&) override {
    const int now = ++program_->now;
    int most = program_->most;
    while (most < now && !program_->most.compare_exchange_weak(most, now)) {
    }
    for (int ms = 0; program_->most < program_->together && ms < 60000; ++ms)
      std::this_thread::sleep_for(milliseconds(1));
    const bool slow = program_->runs == program_->slow_run;
    std::this_thread::sleep_for(milliseconds((slow ? program_->slow_ms : program_->ms_).load()));
    --program_->now;
    ++program_->runs;
    return program_->fails ? Internal("broken") : Status();
  }
  const Datum& output(size_t) const override { return none_; }
  std::span<const StepTiming> profile() const override { return {}; }
  const OperatorTimes& reference_times() const override { return times_; }
  MemoryInfo memory() const override { return {}; }
  std::span<const Cost> step_costs() const override { return {}; }
  std::span<const std::string> step_kernels() const override { return {}; }

 private:
  std::shared_ptr<const Sleeper> program_;
  Datum none_;
  OperatorTimes times_;
};

Result<std::unique_ptr<RunContext>> Sleeper::NewContext() const {
  return std::unique_ptr<RunContext>(std::make_unique<SleeperRun>(shared_from_this()));
}

TEST(ModelEngine, LanesWorkSideBySide) {
  const auto program = std::make_shared<Sleeper>(2);
  const auto engine = *ModelEngine::Make(program, {}, 1, 3, {});
  EXPECT_EQ(program->runs, 3);  // each lane once
  program->together = 3;
  const LoadResult r = *Drive(*engine, {.concurrency = 5, .duration_s = 0.05, .min_queries = 50});
  EXPECT_EQ(program->most, 3);
  EXPECT_EQ(r.answered, r.issued);
  EXPECT_EQ(program->runs, 3 + r.issued);
  EXPECT_GE(r.service.min(), 2);
  EXPECT_LE(r.queue_max, 2);  // 2 unless the thread that submits was kept from a processor
}

TEST(ModelEngine, AQueryOfManySamplesIsSpread) {
  const auto program = std::make_shared<Sleeper>(1);
  const auto engine = *ModelEngine::Make(program, {}, 4, 2, {});
  const LoadResult r =
      *Drive(*engine, {.samples_per_query = 37, .duration_s = 0, .max_queries = 1});
  EXPECT_EQ(r.answered, 1);
  EXPECT_EQ(program->runs, 2 + 10);  // ceil(37 / 4)
  EXPECT_GE(r.service.min(), 5);
}

TEST(ModelEngine, ARealPauseShows) {
  const auto program = std::make_shared<Sleeper>(0);
  program->slow_run = 6;
  program->slow_ms = 100;
  const auto engine = *ModelEngine::Make(program, {}, 1, 1, {});
  const LoadResult r = *Drive(
      *engine, {.arrivals = Arrivals::kUniform, .rate = 200, .duration_s = 0.2, .drain_s = 5});
  EXPECT_EQ(r.issued, 40);
  EXPECT_GE(r.latency.max(), 95);
  EXPECT_GE(r.latency.CountAbove(40), 5);  // those that came meanwhile
}

TEST(ModelEngine, WhatIsAbandonedIsNotHeardOfAgain) {
  const auto program = std::make_shared<Sleeper>(200);
  const auto engine = *ModelEngine::Make(program, {}, 1, 1, {});
  const LoadResult r = *Drive(
      *engine, {.arrivals = Arrivals::kUniform, .rate = 500, .duration_s = 0.04, .drain_s = 0});
  EXPECT_GT(r.unanswered, 10);
  EXPECT_EQ(program->now, 0);
  program->ms_ = 0;
  const LoadResult next = *Drive(*engine, {.duration_s = 0, .min_queries = 5});
  EXPECT_EQ(next.answered, 5);
}

TEST(ModelEngine, AFailingRunEndsTheLoad) {
  const auto program = std::make_shared<Sleeper>(0);
  const auto engine = *ModelEngine::Make(program, {}, 1, 2, {});
  program->fails = true;
  EXPECT_EQ(Drive(*engine, {.concurrency = 4}).status().code(), Code::kInternal);
}

}  // namespace
}  // namespace infer::bench
