#pragma once
/// What every backend of a Plan shares: the program's descriptions, and of a run what is bound,
/// what came out, and the end of exceptions.
#include "runtime/plan_ir/plan.h"

namespace infer {

class PlanProgram : public Program {
 public:
  const std::vector<Value*>& inputs() const final { return plan_.graph.inputs(); }
  const std::vector<Value*>& outputs() const final { return plan_.graph.outputs(); }
  const std::vector<StepInfo>& steps() const final { return steps_; }
  Result<std::vector<Cost>> CostsFor(std::span<const Dims> input_dims) const final;
  const Plan& plan() const { return plan_; }

 protected:
  /// `steps` describes the plan's.
  PlanProgram(Plan plan, std::vector<StepInfo> steps)
      : plan_(std::move(plan)), steps_(std::move(steps)) {}
  /// Every step runs as `kernel` does, in f32.
  PlanProgram(Plan plan, std::string_view kernel);

  Plan plan_;
  std::vector<StepInfo> steps_;
};

class PlanContext : public RunContext {
 public:
  Status BindInput(size_t i, Datum value) final;
  Status BindOutput(size_t i, Tensor buffer) final;
  Status Run(const RunOptions& options) final;
  const Datum& output(size_t i) const final { return outputs_[i]; }
  std::span<const StepTiming> profile() const final { return profile_; }
  const OperatorTimes& reference_times() const final { return reference_times_; }
  MemoryInfo memory() const final { return memory_; }
  std::span<const Cost> step_costs() const final { return step_costs_; }
  std::span<const std::string> step_kernels() const final { return step_kernels_; }

  /// For a loan: `value`, which fits input i, is bound, and what was bound is in its place.
  void SwapInput(size_t i, Datum& value);
  /// The same of output i: a run writes over a tensor of its type that nobody else holds.
  void SwapOutput(size_t i, Datum& value) { std::swap(outputs_[i], value); }
  const Datum& input(size_t i) const { return inputs_[i]; }

 protected:
  /// `plan` outlives the context.
  explicit PlanContext(const Plan& plan);
  /// One run, with all inputs bound and an empty profile. Fills outputs_; exceptions are caught
  /// outside.
  virtual Status RunBound(const RunOptions& options) = 0;
  /// Input i has another value now.
  virtual void InputBound(size_t /*i*/) {}

  /// Records what step `step` took since `begin` (NowMs); `on_reference`: in reference kernels.
  /// Returns the end, so that what follows begins there and no time falls between.
  double Profile(size_t step, double run_start, double begin, bool on_reference,
                 bool is_copy = false);

  /// Extents of the bound inputs; empty for one that is no tensor by its type, whatever it holds.
  std::vector<Dims> InputDims() const;
  /// Whether the extents of input i are part of a shape plan: an optional may hold a tensor, but no
  /// plan knows of it.
  bool IsPlannedInput(size_t i) const;
  /// Output i is `made`, copied to the buffer that is bound to it, if one is. One that is watched
  /// is shown when the run is over.
  Status Deliver(size_t i, const Datum& made);
  /// Shows output i, which is watched, before the run is over.
  void Show(const RawValue& value, const RunOptions& options);

  const Plan& plan_;
  std::vector<Datum> inputs_, outputs_;
  std::vector<std::optional<Tensor>> buffers_;  // for outputs
  std::vector<StepTiming> profile_;
  OperatorTimes reference_times_;
  MemoryInfo memory_;
  // Of the shape plan that runs; whoever sets them keeps it.
  std::span<const Cost> step_costs_;
  std::span<const std::string> step_kernels_;

 private:
  /// Two axes of inputs for which the graph has one symbol, or one expression.
  struct SharedExtent {
    size_t input, other;
    int axis, other_axis;
  };
  void FindSharedExtents();
  Status CheckSharedExtents() const;

  std::vector<SharedExtent> shared_;
  std::vector<bool> is_bound_;
  std::vector<bool> shown_;  // by output
};

/// Milliseconds of a steady clock.
double NowMs();

}  // namespace infer
