#pragma once
/// One run of a CPU program at a time: arena, bound pointers, launch states.
#include "runtime/cpu/program.h"

namespace infer {

class CpuContext final : public RunContext {
 public:
  explicit CpuContext(std::shared_ptr<const CpuProgram> program);
  Status BindInput(size_t i, Datum value) override;
  Status BindOutput(size_t i, Tensor buffer) override;
  Status Run(const RunOptions& options) override;
  const Datum& output(size_t i) const override { return outputs_[i]; }
  std::span<const StepTiming> profile() const override { return profile_; }
  MemoryInfo memory() const override { return memory_; }

 private:
  /// A shape plan with this context's pointers.
  struct Bound {
    std::shared_ptr<const ShapePlan> plan;
    std::vector<std::byte*> args;                      // of all launches, one after the other
    std::vector<size_t> first_arg;                     // by launch
    std::vector<std::unique_ptr<LaunchState>> states;  // by launch
    std::vector<std::pair<size_t, int>> external;      // (arg, buffer) of inputs and outputs
    std::vector<std::byte*> pointers;                  // by buffer
  };
  Status Start();
  Status RunLaunches(const RunOptions& options);
  Status SelectPlan();
  bool Fits(const ShapePlan& plan) const;
  Status Bind(std::shared_ptr<const ShapePlan> plan);
  Status BindPointers();
  Status RunReference(const PlannedLaunch& launch);
  Status Finish();

  std::shared_ptr<const CpuProgram> program_;
  std::vector<Datum> inputs_, outputs_, slots_;
  std::vector<bool> is_bound_;
  std::vector<std::optional<Tensor>> buffers_;
  std::shared_ptr<Buffer> arena_;
  std::vector<std::unique_ptr<Bound>> plans_;  // most recent first
  std::vector<StepTiming> profile_;
  MemoryInfo memory_;
};

}  // namespace infer
