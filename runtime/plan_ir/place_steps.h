#pragma once
/// Which backend of a program each step is placed on, so that work and transfers together take
/// least.
#include "runtime/plan_ir/shape_plan.h"

namespace infer {

/// By step: an index of `backends`. The first backend that has a kernel is taken; then a connected
/// part of the plan goes to the host's side wherever the bytes that it moves between the memory
/// spaces cost more than it gains. `shapes` has types and costs; a kernel may still refuse them.
std::vector<size_t> PlaceSteps(const Plan& plan, const ShapePlan& shapes,
                               std::span<const StepKernels> kernels, const PlanBackends& backends,
                               const std::vector<bool>& needed_step);

}  // namespace infer
