#include "passes/rewrite/near_miss.h"

#include <algorithm>
#include <tuple>

namespace infer {
namespace {

struct Indexed {
  const Rule* rule;
  std::vector<Pattern> roots;
};
struct Found {
  NearMiss miss;
  std::vector<const Node*> nodes;
};
using ByRoot = std::unordered_map<const OpDef*, std::vector<const Indexed*>>;

void Collect(const Graph& g, const ByRoot& by_root, std::vector<Found>& found) {
  for (const auto& n : g.nodes()) {
    for (const auto& [attr, sub] : n->subgraphs()) Collect(*sub, by_root, found);
    const auto it = by_root.find(&n->def());
    if (it == by_root.end()) continue;
    for (const Indexed* r : it->second)
      for (Value* root : n->outputs()) {
        if (!root || root->is_dead()) continue;
        Mismatch why;
        // What matches was refused: that is told with its reason already.
        if (FindMatch(r->roots, root, &why)) continue;
        if (!why.is_near()) continue;
        NearMiss miss{r->rule->name, root->name(), {}, why.matched, why.of, why.text};
        for (const Node* fitted : why.nodes)
          for (const std::string& name : fitted->fused_from())
            if (!name.empty()) miss.nodes.push_back(name);
        found.push_back({std::move(miss), std::move(why.nodes)});
      }
  }
}

}  // namespace

std::vector<NearMiss> FindNearMisses(const Graph& g, std::span<const Rule* const> rules,
                                     std::span<const MatchRecord> records, size_t max) {
  std::vector<Indexed> indexed;
  for (const Rule* r : rules) indexed.push_back({r, r->roots()});
  ByRoot by_root;
  for (const Indexed& r : indexed)
    for (const Pattern::OpName& op : RootOps(r.rule->match))
      if (const OpDef* def = g.ops().Find(op.domain, op.name)) by_root[def].push_back(&r);

  std::vector<Found> found;
  Collect(g, by_root, found);
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    const auto rank = [](const NearMiss& m) { return std::tuple(m.of - m.matched, -m.matched); };
    return rank(a.miss) < rank(b.miss);
  });

  // By original node: the largest match that has it.
  std::unordered_map<std::string, int> taken;
  for (const MatchRecord& r : records)
    if (r.outcome == MatchRecord::Outcome::kApplied)
      for (const std::string& name : r.nodes)
        if (!name.empty()) taken[name] = std::max(taken[name], r.matched);
  std::unordered_set<const Node*> told;
  std::vector<NearMiss> out;
  for (Found& f : found) {
    if (out.size() == max) break;
    const bool free =
        std::none_of(f.nodes.begin(), f.nodes.end(),
                     [&](const Node* n) { return told.contains(n); }) &&
        std::all_of(f.miss.nodes.begin(), f.miss.nodes.end(), [&](const std::string& name) {
          const auto it = taken.find(name);
          return it == taken.end() || it->second < f.miss.matched;
        });
    if (!free) continue;
    told.insert(f.nodes.begin(), f.nodes.end());
    out.push_back(std::move(f.miss));
  }
  return out;
}

}  // namespace infer
