#include "runtime/plan_ir/groups/chains.h"

#include <algorithm>
#include <set>

namespace infer {
namespace {

class ChainFolder {
 public:
  ChainFolder(Plan& plan, AcceptsStep fits) : plan_(plan), fits_(fits) {
    for (size_t s = 0; s < plan.steps.size(); ++s)
      for (const Node* n : plan.steps[s].nodes) {
        auto [it, is_new] = step_of_.emplace(n, s);
        if (!is_new) it->second = std::min(it->second, s);  // borrowed by several
      }
  }

  void Run() {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      if (step.borrowed > 0 || step.nodes.size() != 1 || !fits_(step)) continue;
      std::set<size_t> before;
      for (const Value* v : step.main->inputs())
        if (v && v->producer())
          if (const auto it = step_of_.find(v->producer());
              it != step_of_.end() && open_[it->second])
            before.insert(it->second);
      if (!Join(s, before))
        for (auto it = before.rbegin(); it != before.rend(); ++it)
          if (Join(s, {*it})) break;
      open_[s] = true;
    }
    std::erase_if(plan_.steps, [](const PlanStep& step) { return step.nodes.empty(); });
    Relink(plan_);
  }

 private:
  /// The steps `before` and step s as one in the place of s.
  bool Join(size_t s, const std::set<size_t>& before) {
    if (before.empty()) return false;
    PlanStep joined;
    for (size_t b : before)
      for (const Node* n : plan_.steps[b].nodes) joined.nodes.push_back(n);
    joined.nodes.push_back(plan_.steps[s].main);
    // Chains of several steps before may lie interleaved; values know their order.
    std::stable_sort(joined.nodes.begin(), joined.nodes.end(), [&](const Node* a, const Node* b) {
      return plan_.id(a->output(0)) < plan_.id(b->output(0));
    });
    if (joined.nodes.back() != plan_.steps[s].main) return false;
    joined.main = joined.nodes.front();
    const std::set<const Node*> inside(joined.nodes.begin(), joined.nodes.end());
    for (const Node* n : joined.nodes) {
      const Value* v = n->output(0);
      const int id = plan_.id(v);
      bool read = std::find(plan_.outputs.begin(), plan_.outputs.end(), id) != plan_.outputs.end();
      for (const auto& use : v->uses()) {
        if (inside.count(use.user)) continue;
        const auto it = step_of_.find(use.user);
        if (it == step_of_.end()) continue;  // a step that nobody needed
        if (it->second <= s) return false;   // it would stand before what it reads
        read = true;
      }
      if (read) joined.outputs.push_back(id);
      for (const Value* x : n->inputs()) {
        if (!x || (x->producer() && inside.count(x->producer()))) continue;
        const int at = plan_.id(x);
        if (std::find(joined.inputs.begin(), joined.inputs.end(), at) == joined.inputs.end())
          joined.inputs.push_back(at);
      }
    }
    if (!fits_(joined)) return false;
    for (size_t b : before) {
      plan_.steps[b].nodes.clear();
      open_[b] = false;
    }
    for (const Node* n : joined.nodes) step_of_[n] = s;
    plan_.steps[s] = std::move(joined);
    return true;
  }

  Plan& plan_;
  const AcceptsStep fits_;
  std::unordered_map<const Node*, size_t> step_of_;
  std::unordered_map<size_t, bool> open_;  // a chain, or what may begin one
};

}  // namespace

void FoldChains(Plan& plan, AcceptsStep fits) { ChainFolder(plan, fits).Run(); }

}  // namespace infer
