#include "runtime/plan_ir/groups/grouping.h"

#include <algorithm>
#include <unordered_set>

namespace infer {

bool KernelsAccept::operator()(const PlanStep& step) const {
  const StepCall call{plan, step, options};
  return std::any_of(kernels.begin(), kernels.end(), [&](const KernelDef& k) {
    return k.name != except && k.Takes(step.main->def()) && k.refuse(call).empty();
  });
}

PlanStep MakeStep(const Plan& plan, const Node& main, std::vector<const Node*> nodes,
                  size_t borrowed) {
  PlanStep step;
  step.main = &main;
  step.nodes = std::move(nodes);
  step.borrowed = borrowed;
  std::sort(step.nodes.begin() + static_cast<std::ptrdiff_t>(borrowed), step.nodes.end(),
            [](const Node* a, const Node* b) { return Graph::Before(*a, *b); });
  const std::unordered_set<const Node*> inside(step.nodes.begin(), step.nodes.end());
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    for (const Value* v : step.nodes[i]->inputs())
      if (v && !inside.count(v->producer()) &&
          std::find(step.inputs.begin(), step.inputs.end(), plan.id(v)) == step.inputs.end())
        step.inputs.push_back(plan.id(v));
    if (i < borrowed) continue;
    for (const Value* v : step.nodes[i]->outputs())
      if (v && (v->is_output() || std::any_of(v->uses().begin(), v->uses().end(),
                                              [&](const Use& u) { return !inside.count(u.user); })))
        step.outputs.push_back(plan.id(v));
  }
  return step;
}

const Node* OnlyReader(const Node& node) {
  const Value* v = node.output(0);
  return v && v->has_one_use() ? v->uses()[0].user : nullptr;
}

bool HasOneResult(const Node& node) {
  return node.output(0) && std::none_of(node.outputs().begin() + 1, node.outputs().end(),
                                        [](const Value* v) { return v != nullptr; });
}

bool SameShape(const Value& a, const Value& b) {
  if (!a.shape().has_rank() || !b.shape().has_rank() || a.shape().rank() != b.shape().rank())
    return false;
  for (int i = 0; i < a.shape().rank(); ++i)
    if (!a.shape()[i].KnownEqual(b.shape()[i])) return false;
  return true;
}

Grouping::Grouping(Plan& plan) : plan_(plan) {
  for (size_t s = 0; s < plan.steps.size(); ++s)
    for (size_t i = plan.steps[s].borrowed; i < plan.steps[s].nodes.size(); ++i)
      step_of_[plan.steps[s].nodes[i]] = s;
}

Grouping::~Grouping() {
  std::erase_if(plan_.steps, [](const PlanStep& step) { return step.nodes.empty(); });
  Relink(plan_);
}

bool Grouping::IsFree(const Node* n) const {
  const auto at = step_of_.find(n);
  return at != step_of_.end() && plan_.steps[at->second].nodes.size() == 1;
}

bool Grouping::AreFree(std::span<const Node* const> nodes) const {
  return std::all_of(nodes.begin(), nodes.end(), [this](const Node* n) { return IsFree(n); });
}

size_t Grouping::Take(PlanStep group) {
  const size_t at = step_of_.at(group.nodes.back());
  for (size_t i = group.borrowed; i < group.nodes.size(); ++i) {
    size_t& of = step_of_.at(group.nodes[i]);
    plan_.steps[of].nodes.clear();
    of = at;
  }
  plan_.steps[at] = std::move(group);
  return at;
}

}  // namespace infer
