#include "runtime/plan_ir/groups/parts.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {
namespace {

/// Longer chains gain nothing: each of their steps is bound by memory.
constexpr std::ptrdiff_t kMostTogether = 8;

/// Every node behind the first reads a result of one before it.
bool IsConnected(std::span<const Node* const> nodes) {
  for (size_t i = 1; i < nodes.size(); ++i) {
    const auto& inputs = nodes[i]->inputs();
    const auto is_made_before = [&](const Value* v) {
      return v && std::find(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(i),
                            v->producer()) != nodes.begin() + static_cast<std::ptrdiff_t>(i);
    };
    if (std::none_of(inputs.begin(), inputs.end(), is_made_before)) return false;
  }
  return true;
}

std::vector<PlanStep> PartsOfGroup(const Plan& plan, const PlanStep& group, AcceptsStep accepts) {
  std::vector<PlanStep> parts;
  const auto& nodes = group.nodes;
  const auto main = std::find(nodes.begin(), nodes.end(), group.main);
  for (auto begin = nodes.begin(); begin != nodes.end(); ++begin) {
    const auto most = begin < main ? 1 : std::min(kMostTogether, nodes.end() - begin);
    for (auto size = most; size > 1; --size) {
      std::vector<const Node*> some(begin, begin + size);
      if (some.size() == nodes.size() || !IsConnected(some)) continue;
      PlanStep part = MakeStep(plan, **begin, std::move(some));
      if (accepts(part)) parts.push_back(std::move(part));
    }
    parts.push_back(MakeStep(plan, **begin, {*begin}));
  }
  return parts;
}

}  // namespace

void AddParts(Plan& plan, AcceptsStep accepts) {
  for (PlanStep& step : plan.steps)
    if (step.nodes.size() > 1) step.parts = PartsOfGroup(plan, step, accepts);
}

std::pair<size_t, size_t> PartsFrom(const PlanStep& step, size_t at) {
  const auto begins = [&](const PlanStep& part) { return part.nodes.front() == step.nodes[at]; };
  const auto first = std::find_if(step.parts.begin(), step.parts.end(), begins);
  const auto last = std::find_if_not(first, step.parts.end(), begins);
  return {static_cast<size_t>(first - step.parts.begin()),
          static_cast<size_t>(last - step.parts.begin())};
}

std::string OperatorsOf(const PlanStep& step, std::span<const size_t> parts) {
  std::vector<std::string> ops;
  for (const size_t p : parts) ops.push_back(OperatorOf(step.parts[p]));
  return Join(ops, ", ");
}

}  // namespace infer
