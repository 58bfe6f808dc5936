#include "runtime/cpu/kernels/common/gate.h"

#include <algorithm>

#include "runtime/cpu/kernels/common/epilogue.h"
#include "runtime/cpu/kernels/common/quant_group.h"

namespace infer {
namespace {

/// [1 or N, C, 1, 1] for an `x` of [N, C, H, W].
bool IsPerChannel(const Value& by, const Value& x) {
  const Shape &s = by.shape(), &of = x.shape();
  return s.has_rank() && of.has_rank() && s.rank() == 4 && of.rank() == 4 && s[2] == Dim(1) &&
         s[3] == Dim(1) && s[1].KnownEqual(of[1]) && (s[0] == Dim(1) || s[0].KnownEqual(of[0]));
}

/// Position of what is gated among the operands of `mul`; -1: it is no gate.
int Gated(const Node& mul) {
  if (!mul.Is("Mul") || mul.input(0) == mul.input(1)) return -1;
  for (int i : {0, 1}) {
    const Value &x = *mul.input(static_cast<size_t>(i)),
                &by = *mul.input(static_cast<size_t>(1 - i));
    if (SameShape(x, *mul.output(0)) && IsPerChannel(by, x)) return i;
  }
  return -1;
}

}  // namespace

std::optional<Gate> GateOf(const StepCall& call) {
  const Node& first = *call.step.nodes.front();
  if (&first == call.step.main || call.main().input(0) != first.output(0)) return std::nullopt;
  const int x = Gated(first);
  if (x < 0) return std::nullopt;
  return Gate{call.operand(first.input(static_cast<size_t>(x))),
              call.operand(first.input(static_cast<size_t>(1 - x)))};
}

void FoldGates(Plan& plan, const KernelList& kernels, const CompileOptions& options) {
  std::unordered_map<const Node*, PlanStep*> alone;
  for (PlanStep& step : plan.steps)
    if (step.nodes.size() == 1) alone[step.main] = &step;
  for (PlanStep& step : plan.steps) {
    if (step.nodes.size() != 1 || !step.main->Is("Conv")) continue;
    const Node* mul = step.main->input(0)->producer();
    const auto found = alone.find(mul);
    if (found == alone.end() || !mul->output(0)->has_one_use() || Gated(*mul) < 0) continue;
    PlanStep longer = step;
    longer.nodes.insert(longer.nodes.begin(), mul);
    std::erase(longer.inputs, plan.id(mul->output(0)));
    for (const Value* v : mul->inputs())
      if (std::find(longer.inputs.begin(), longer.inputs.end(), plan.id(v)) == longer.inputs.end())
        longer.inputs.push_back(plan.id(v));
    if (!SomeKernelAccepts(plan, longer, kernels, options)) continue;
    found->second->nodes.clear();
    step = std::move(longer);
  }
  std::erase_if(plan.steps, [](const PlanStep& step) { return step.nodes.empty(); });
  Relink(plan);
}

}  // namespace infer
