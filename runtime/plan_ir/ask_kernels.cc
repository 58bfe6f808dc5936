#include "runtime/plan_ir/ask_kernels.h"

#include <unistd.h>

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {
namespace {

/// Kernels of products and quantizers take constants apart before they look at extents.
bool HasEmptyWeights(const Plan& plan, const PlanStep& step) {
  if (!step.main->IsAny(Trait::kContraction | Trait::kQuantize | Trait::kDequantize)) return false;
  return std::any_of(step.inputs.begin(), step.inputs.end(), [&](int id) {
    const Tensor* t = plan.constant(id);
    return t && t->num_elements() == 0;
  });
}

}  // namespace

Result<Prepared> AskKernel(const Plan& plan, const ShapePlan& shapes, const Candidate& c, size_t k,
                           std::span<const Operand> in, std::span<const Operand> out) {
  const Kernel& kernel = *c.kernels.kernels[k];
  if (shapes.declared[c.s] && !kernel.checks_extents())
    return Unsupported("the extents of the result are nothing but declared");
  if (HasEmptyWeights(plan, c.step)) return Unsupported("a constant operand is empty");
  return kernel.Prepare(in, out);
}

bool AllPlannable(const ShapePlan& shapes, const std::vector<int>& ids) {
  return std::all_of(ids.begin(), ids.end(), [&](int id) { return shapes.value(id).plannable; });
}

Status CheckSize(const Plan& plan, const ShapePlan& shapes, int id) {
  static const int64_t most = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const ValueFacts& facts = shapes.value(id);
  if (facts.given() || facts.bytes <= most) return {};
  return ResourceExhausted(Cat("value '", plan.values[static_cast<size_t>(id)]->name(),
                               "': ", ToString(facts.type), " takes ", HumanBytes(facts.bytes),
                               ", more than the memory of this machine"));
}

}  // namespace infer
