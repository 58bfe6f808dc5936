#include "runtime/cpu/compile/bf16_values.h"

#include <algorithm>

#include "lib/ir/roles.h"
#include "runtime/cpu/kernels/common/epilogue.h"
#include "runtime/cpu/kernels/common/kernels.h"

namespace infer {
namespace {

/// A maximum of numbers in bf16 is one of them.
bool IsMaxPool(const PlanStep& step) { return step.nodes.size() == 1 && step.main->Is("MaxPool"); }

bool IsBf16Product(const StepCall& call, const KernelList& kernels) {
  return std::any_of(kernels.begin(), kernels.end(), [&](const KernelDef& k) {
    return k.name == kBf16Kernel && k.Takes(call.main().def()) && k.refuse(call).empty();
  });
}

/// The residual of a product; -1: none.
int ResidualOf(const StepCall& call) {
  const bool may_bias = IsMatrixProduct(call.main()) && !call.main().input(2);
  const auto epilogue = DecodeEpilogue(call, may_bias);
  return epilogue.ok() ? epilogue->residual : -1;
}

}  // namespace

void ChooseBf16Values(Plan& plan, const KernelList& kernels, const CompileOptions& options) {
  if (options.compute != Compute::kBF16) return;
  const size_t count = plan.values.size();
  std::vector<bool> read_well(count, true), is_product(plan.steps.size());
  for (const int id : plan.outputs) read_well[static_cast<size_t>(id)] = false;
  for (size_t s = plan.steps.size(); s-- > 0;) {
    const PlanStep& step = plan.steps[s];
    const StepCall call{plan, step, options};
    is_product[s] = IsBf16Product(call, kernels);
    const int x = call.operand(step.main->input(0)),
              residual = is_product[s] ? ResidualOf(call) : -1;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const auto at = static_cast<int>(i);
      const bool well = is_product[s] ? at == x || at == residual
                                      : IsMaxPool(step) && step.outputs.size() == 1 &&
                                            read_well[static_cast<size_t>(step.outputs[0])];
      if (!well) read_well[static_cast<size_t>(step.inputs[i])] = false;
    }
  }
  plan.in_bf16.assign(count, false);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    if (step.outputs.size() != 1) continue;
    const auto y = static_cast<size_t>(step.outputs[0]);
    const bool kept = is_product[s] || (IsMaxPool(step) && plan.lies_in_bf16(step.inputs[0]));
    plan.in_bf16[y] = kept && read_well[y];
  }
}

}  // namespace infer
