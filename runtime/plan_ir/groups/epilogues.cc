#include "runtime/plan_ir/groups/epilogues.h"

namespace infer {

void FoldEpilogues(Plan& plan, AcceptsStep accepts) {
  Grouping grouping(plan);
  std::vector<bool> taken(plan.steps.size(), false);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (taken[s] || plan.steps[s].nodes.empty() || plan.steps[s].borrowed > 0 ||
        !accepts(plan.steps[s]))
      continue;
    for (size_t at = s; HasOneResult(*plan.steps[at].nodes.back());) {
      const PlanStep& step = plan.steps[at];
      const Node* next = OnlyReader(*step.nodes.back());
      // A recurrent layer may leave its first result out.
      if (!next || !grouping.IsFree(next) || !next->output(0)) break;
      std::vector<const Node*> nodes = step.nodes;
      nodes.push_back(next);
      PlanStep longer = MakeStep(plan, *step.main, std::move(nodes));
      if (!accepts(longer)) break;
      at = grouping.Take(std::move(longer));
      taken[at] = true;
    }
  }
}

}  // namespace infer
