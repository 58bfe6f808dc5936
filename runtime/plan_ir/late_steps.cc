#include "runtime/plan_ir/late_steps.h"

#include <algorithm>

#include "runtime/plan_ir/specialize.h"

namespace infer {
namespace {

/// A tensor of numbers whose extents only the run knows.
bool IsUnsized(const ShapePlan& shapes, int id) {
  const ValueType& t = shapes.type(id);
  return t.is_tensor() && t.tensor().dtype != DType::kString && !IsPlannable(t) &&
         !Given(shapes, id);
}

}  // namespace

LateSteps FindLateSteps(const Plan& plan, std::span<const StepKernels> kernels,
                        const ShapePlan& shapes, const std::vector<bool>& needed_step) {
  std::vector<bool> late_value(plan.values.size(), false);
  LateSteps late;
  size_t needed = 0;
  bool has_kernels = false;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (!needed_step[s]) continue;
    ++needed;
    const PlanStep& step = plan.steps[s];
    if (std::none_of(step.inputs.begin(), step.inputs.end(), [&](int id) {
          return late_value[static_cast<size_t>(id)] || IsUnsized(shapes, id);
        }))
      continue;
    late.steps.push_back(s);
    has_kernels |= !kernels[s].kernels.empty();
    for (int id : step.outputs) late_value[static_cast<size_t>(id)] = true;
  }
  if (!has_kernels || late.steps.size() == needed) return {};
  for (size_t s : late.steps)
    for (int id : plan.steps[s].inputs)
      if (!late_value[static_cast<size_t>(id)] && !Given(shapes, id) && !late.Reads(id))
        late.inputs.push_back(id);
  for (int id : plan.outputs)
    if (late_value[static_cast<size_t>(id)] && !Given(shapes, id) &&
        std::find(late.outputs.begin(), late.outputs.end(), id) == late.outputs.end())
      late.outputs.push_back(id);
  return late;
}

}  // namespace infer
