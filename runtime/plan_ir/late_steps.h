#pragma once
/// Which steps of a plan hang on shapes that only the run knows.
#include <span>
#include <vector>

#include "runtime/plan_ir/shape_plan.h"

namespace infer {

/// The late ones of the steps that are needed, where there are some that have kernels and others
/// before them: a plan of the late ones alone has fewer. Else none. `shapes` has the types already.
LateSteps FindLateSteps(const Plan& plan, std::span<const StepKernels> kernels,
                        const ShapePlan& shapes, const std::vector<bool>& needed_step);

}  // namespace infer
