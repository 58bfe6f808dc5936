#include "runtime/plan_ir/node_kinds.h"

#include <algorithm>

#include "runtime/plan_ir/value_facts.h"

namespace infer {
namespace {

/// Kinds of one operator and attributes; further nodes count as alone, lest each is compared with
/// each.
constexpr size_t kMostAlike = 64;

bool SameStored(const Value* a, const Value* b) {
  if (!a || !b) return a == b;
  if (!(a->type() == b->type()) || a->elements() != b->elements()) return false;
  const Tensor *x = a->known(), *y = b->known();
  return x == y || (x && y && SameTensor(*x, *y));
}

bool SameKind(const Node& a, const Node& b) {
  return &a.def() == &b.def() && a.inputs().size() == b.inputs().size() &&
         std::equal(a.outputs().begin(), a.outputs().end(), b.outputs().begin(), b.outputs().end(),
                    SameStored) &&
         a.attrs() == b.attrs();
}

}  // namespace

std::vector<int> NodeKinds(const Plan& plan) {
  std::vector<int> kinds;
  std::unordered_map<uint64_t, std::vector<std::pair<const Node*, int>>> known;
  int next = 0;
  for (const auto& n : plan.graph.nodes()) {
    int& kind = kinds.emplace_back(-1);
    const bool has_constant = std::any_of(n->outputs().begin(), n->outputs().end(),
                                          [&](const Value* v) { return v && plan.constant(v); });
    if (has_constant || !n->subgraphs().empty()) continue;
    auto& alike = known[HashOf(n->attrs()) ^ reinterpret_cast<uintptr_t>(&n->def())];
    for (const auto& [other, its] : alike)
      if (kind < 0 && SameKind(*other, *n)) kind = its;
    if (kind >= 0 || alike.size() >= kMostAlike) continue;
    kind = next++;
    alike.emplace_back(n.get(), kind);
  }
  return kinds;
}

}  // namespace infer
