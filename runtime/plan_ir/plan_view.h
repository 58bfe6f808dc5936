#pragma once
/// A Plan, its kernels and its shape plan as a PlanView.
#include "runtime/plan_ir/shape_plan.h"

namespace infer {

/// Steps with what they read and write.
PlanView ViewOf(const Plan& plan);

/// Adds kernel, precision, candidates and refusals to each step.
void AddKernels(PlanView& view, std::span<const StepKernels> kernels,
                std::span<const StepInfo> infos);

/// Adds the types, kernels and layouts of a shape plan to each step. `origins`: of its buffers.
void AddLayouts(PlanView& view, const Plan& plan, const ShapePlan& shapes,
                std::span<const BufferOrigin> origins, const PlanBackends& backends);
void AddLaunches(PlanView& view, const ShapePlan& shapes);
/// The buffers that the launches use, with offsets and lives.
void AddMemory(PlanView& view, const Plan& plan, const ShapePlan& shapes,
               std::span<const BufferOrigin> origins, const PlanBackends& backends);

}  // namespace infer
