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

/// `in` as the kernel may look at it: elements of constants that the plan has lost are made again
/// where it does not pack them.
Result<Prepared> PrepareWith(const Plan& plan, const PlanStep& step, const Kernel& kernel,
                             std::span<const Operand> in, std::span<const Operand> out) {
  std::vector<Operand> own;
  std::vector<Tensor> made;
  made.reserve(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].constant || !plan.constant(step.inputs[i]) || kernel.packs(static_cast<int>(i)))
      continue;
    INFER_ASSIGN(Tensor elements, plan.Elements(step.inputs[i]));
    if (elements.raw() == in[i].constant->raw()) continue;
    if (own.empty()) own.assign(in.begin(), in.end());
    own[i].constant = &made.emplace_back(std::move(elements));
  }
  return kernel.Prepare(own.empty() ? in : own, out);
}

}  // namespace

Result<Prepared> AskKernel(const Plan& plan, const ShapePlan& shapes, const Candidate& c, size_t k,
                           std::span<const Operand> in, std::span<const Operand> out) {
  const Kernel& kernel = *c.kernels.kernels[k];
  if (shapes.declared[c.s] && !kernel.checks_extents())
    return Unsupported("the extents of the result are nothing but declared");
  if (HasEmptyWeights(plan, c.step)) return Unsupported("a constant operand is empty");
  return PrepareWith(plan, c.step, kernel, in, out);
}

std::optional<size_t> MeasuredFirst(const Plan& plan, KernelChooser& chooser, const Candidate& c,
                                    std::span<const Operand> in, std::span<const Operand> out) {
  StepKernels own;
  std::vector<size_t> which;
  for (size_t k = 0; k < c.kernels.kernels.size(); ++k)
    if (c.kernels.backend(k) == 0) {
      which.push_back(k);
      own.kernels.push_back(c.kernels.kernels[k]);
      own.names.push_back(c.kernels.names[k]);
    }
  if (which.size() < 2) return std::nullopt;
  if (const auto known = chooser.Known(c.step, in, out, own)) return which[*known];
  if (!chooser.measures()) return std::nullopt;
  std::vector<std::optional<Prepared>> prepared;
  for (const auto& kernel : own.kernels) {
    auto p = PrepareWith(plan, c.step, *kernel, in, out);
    prepared.push_back(p.ok() ? std::optional(*std::move(p)) : std::nullopt);
  }
  const auto accept =
      std::count_if(prepared.begin(), prepared.end(), [](const auto& p) { return p.has_value(); });
  if (accept < 2) return std::nullopt;
  const auto fastest = chooser.Fastest(c.step, in, out, own, prepared);
  return fastest ? std::optional(which[*fastest]) : std::nullopt;
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
