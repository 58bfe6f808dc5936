#pragma once
/// One run of a CPU program at a time: arena, bound pointers, launch states.
#include "lib/ir/control_flow.h"
#include "runtime/cpu/bodies.h"
#include "runtime/plan_ir/plan_program.h"

namespace infer {

class CpuContext final : public PlanContext {
 public:
  explicit CpuContext(std::shared_ptr<const CpuProgram> program);

 private:
  /// A shape plan with this context's pointers.
  struct Bound {
    std::shared_ptr<const ShapePlan> plan;
    std::vector<std::byte*> args;                      // of all launches, one after the other
    std::vector<size_t> first_arg;                     // by launch
    std::vector<std::unique_ptr<LaunchState>> states;  // by launch
    std::vector<std::pair<size_t, int>> external;      // (arg, buffer) of inputs and outputs
    std::vector<std::byte*> pointers;                  // by buffer
    bool alone = false;                                // all launches are
    std::shared_ptr<const CpuProgram> late_program;    // once it has run
    std::unique_ptr<RunContext> late;
    bool late_on_reference = false;  // no program could run them
  };
  Status RunBound(const RunOptions& options) override;
  Status RunLaunches(const RunOptions& options);
  Status RunKernel(const PlannedLaunch& launch, std::byte* const* args, LaunchState* state,
                   const RunOptions& options);
  Status SelectPlan();
  bool Fits(const ShapePlan& plan) const;
  Status Bind(std::shared_ptr<const ShapePlan> plan);
  /// Sets all pointers but those of inputs and outputs.
  void PointIntoArena(Bound& bound) const;
  Status BindPointers();
  /// What the node itself spends is not a kernel's; its bodies say what of theirs is the
  /// reference's.
  Status RunBodies(const PlannedLaunch& launch, const RunOptions& options, double start);
  /// All late steps, by a program of their own.
  Status RunLate(const PlannedLaunch& launch, const RunOptions& options, double start);
  Status RunLateProgram(const PlannedLaunch& launch, const RunOptions& options, double start);
  /// One by one: what contradicts itself in a branch that is not taken has no plan.
  Status RunLateOnReference(const PlannedLaunch& launch, const RunOptions& options, double start);
  /// The operand of a launch that is no kernel's: value `id`, in buffer `b` or in its slot.
  Datum OperandOf(int id, int b);
  /// Takes the result of such a launch.
  Status Keep(int id, int b, Datum made);
  Status RunReference(const PlannedLaunch& launch, const SubgraphRunner& run = {});
  Status Finish();

  std::shared_ptr<const CpuProgram> program_;
  BodyRuns bodies_;
  std::vector<Datum> slots_;  // by value id, for steps on reference kernels
  std::shared_ptr<Buffer> arena_;
  std::vector<std::unique_ptr<Bound>> plans_;  // most recent first
};

}  // namespace infer
