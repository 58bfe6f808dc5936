#pragma once
/// A shape plan made from the one before (ADR 59): where other extents leave in place what runs in
/// which order, only sizes, code and places in the arena are new. Internal to runtime/plan_ir.
#include "runtime/plan_ir/plan_reuse.h"

namespace infer {

/// Completes `out`, whose facts the specializer of `hooks.reuse` has just filled, from the last
/// plan with its notes. The result is as a whole plan would be: the same kernels take the steps,
/// asked again wherever an operand or result is otherwise; buffers may keep up to a quarter more
/// room than they need. false: it has to be made whole (there is no last plan, another kernel takes
/// a step, a step that changed runs in parts, ...); then `out` and the notes are of no use.
Result<bool> PatchPlan(const Plan& plan, std::span<const StepKernels> kernels,
                       const PlanBackends& backends, const ShapePlanHooks& hooks, ShapePlan& out);

}  // namespace infer
