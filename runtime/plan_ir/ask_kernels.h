#pragma once
/// One question to one kernel, as a whole plan and a patched one put it. Internal to
/// runtime/plan_ir.
#include "runtime/plan_ir/plan_reuse.h"

namespace infer {

/// A step, or one of its parts, with the kernels that may take it.
struct Candidate {
  size_t s;
  const PlanStep& step;
  const StepKernels& kernels;
  int part = -1;
};

/// The answer of candidate k. Unsupported, with the reason, where it refuses.
Result<Prepared> AskKernel(const Plan& plan, const ShapePlan& shapes, const Candidate& c, size_t k,
                           std::span<const Operand> in, std::span<const Operand> out);

/// Of the first backend's candidates the one that is known to be fastest, or is measured now;
/// nullopt: not known, and nothing to measure.
std::optional<size_t> MeasuredFirst(const Plan& plan, KernelChooser& chooser, const Candidate& c,
                                    std::span<const Operand> in, std::span<const Operand> out);

/// Whether all these values can lie in planned buffers.
bool AllPlannable(const ShapePlan& shapes, const std::vector<int>& ids);

/// Which kernel takes a step follows from its operands alone: steps are placed on one backend, and
/// nothing was measured.
inline bool KeepsAnswers(const ShapePlanHooks& hooks, const PlanBackends& backends) {
  return hooks.reuse && !hooks.chooser && backends.size() == 1;
}

/// A value that no run on this machine can hold is refused before kernels make tables of it.
Status CheckSize(const Plan& plan, const ShapePlan& shapes, int id);

}  // namespace infer
