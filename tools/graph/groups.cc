#include "tools/graph/groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr size_t kMaxDepth = 12;  // of scopes
constexpr size_t kMostPart = 60;  // of few hundred children

/// "/encoder/layer.0/Add" -> "encoder", "layer.0", "Add".
std::vector<std::string> PartsOfName(const PictureNode& n) {
  std::string name;
  if (n.node) {
    name = n.node->name();
    if (name.find('/') == std::string::npos)
      for (const Value* v : n.node->outputs())
        if (v && v->name().find('/') != std::string::npos) {
          name = v->name();
          break;
        }
  }
  std::vector<std::string> parts;
  for (const std::string& part : Split(name, '/'))
    if (!part.empty()) parts.push_back(part);
  return parts;
}

/// A node whose name spells no scope lies where all its readers do: what quantizing adds,
/// constants.
std::vector<std::string> PartsOfReaders(
    const Node& n, std::vector<std::string> own,
    const std::unordered_map<const Node*, std::vector<std::string>>& parts) {
  std::vector<std::string> shared;
  bool is_first = true;
  for (const Value* v : n.outputs()) {
    if (!v) continue;
    if (v->is_output()) return own;
    for (const Use& use : v->uses()) {
      const auto it = parts.find(use.user);
      if (it == parts.end()) continue;
      std::vector<std::string> scope = it->second;
      if (!scope.empty()) scope.pop_back();
      size_t same = 0;
      while (!is_first && same < std::min(shared.size(), scope.size()) &&
             shared[same] == scope[same])
        ++same;
      if (!is_first) scope.resize(same);
      shared = std::move(scope);
      is_first = false;
    }
  }
  shared.push_back(own.empty() ? std::string(n.op()) : own.back());
  return shared;
}

struct ScopeOfNames {
  std::string part;
  std::vector<size_t> nodes;
  std::vector<size_t> scopes;
  std::map<std::string, size_t> by_part;
  int total = 0;
};

class ScopeGrouping {
 public:
  ScopeGrouping(Picture& p, int base) : picture_(p), base_(base), scopes_(1) {}

  /// `parts`: the scope, and the name within.
  void Add(size_t node, const std::vector<std::string>& parts) {
    size_t at = 0;
    ++scopes_[0].total;
    for (size_t i = 0; i + 1 < std::min(parts.size(), kMaxDepth); ++i) {
      const auto [it, is_new] = scopes_[at].by_part.try_emplace(parts[i], scopes_.size());
      const size_t next = it->second;
      if (is_new) {
        scopes_[at].scopes.push_back(next);
        scopes_.emplace_back().part = parts[i];
      }
      at = next;
      ++scopes_[at].total;
    }
    scopes_[at].nodes.push_back(node);
  }

  void MakeGroups() { Make(0, base_, "", 0); }

 private:
  /// `depth`: parts of the name that groups around it spell.
  void Make(size_t scope, int parent, const std::string& prefix, size_t depth) {
    const ScopeOfNames& s = scopes_[scope];
    int group = parent;
    std::string inside;
    if (scope != 0 && s.total > 1) {
      if (s.nodes.empty() && s.scopes.size() == 1) {
        Make(s.scopes[0], parent, Cat(prefix, s.part, "/"), depth + 1);
        return;
      }
      group = static_cast<int>(picture_.groups.size());
      auto& made = picture_.groups.emplace_back();
      made.kind = PictureGroup::Kind::kScope;
      made.parent = parent;
      made.label = Cat(prefix, s.part);
    } else if (scope != 0) {
      inside = Cat(prefix, s.part, "/");
    }
    for (const size_t n : s.nodes) {
      picture_.nodes[n].group = group;
      const std::vector<std::string> parts = PartsOfName(picture_.nodes[n]);
      picture_.nodes[n].detail = DetailOf(picture_.nodes[n], inside, parts);
    }
    for (const size_t k : s.scopes) Make(k, group, inside, depth + 1);
  }

  /// The rest of a name beside groups and operator: "conv1" of /layer1/conv1/Conv in group layer1.
  static std::string DetailOf(const PictureNode& n, const std::string& inside,
                              const std::vector<std::string>& parts) {
    const std::string leaf = parts.empty() ? "" : parts.back();
    if (!inside.empty() && leaf.starts_with(n.node->op()))
      return inside.substr(0, inside.size() - 1);
    if (leaf == n.node->op()) return "";
    return Cat(inside, leaf);
  }

  Picture& picture_;
  int base_;
  std::vector<ScopeOfNames> scopes_;
};

/// The child of the group on the way from `at` (a group) upwards; -1: `at` is not within.
int GroupBelow(const Picture& p, int group, int at) {
  while (at >= 0 && p.groups[static_cast<size_t>(at)].parent != group)
    at = p.groups[static_cast<size_t>(at)].parent;
  return at;
}

/// How many values cross each gap between neighbours of the order: by the first and the last child
/// that makes or reads them.
class Crossing {
 public:
  Crossing(const Picture& p, int group, const std::map<std::pair<bool, int>, size_t>& at,
           size_t count)
      : gaps_(count + 1, 0) {
    struct Span {
      size_t low = std::numeric_limits<size_t>::max(), high = 0;
    };
    std::vector<Span> spans(p.values.size());
    for (size_t n = 0; n < p.nodes.size(); ++n) {
      const Child c = ChildHolding(p, group, static_cast<int>(n));
      const auto it = at.find({c.kind == Child::Kind::kGroup, c.index});
      if (it == at.end()) continue;
      for (const auto* list : {&p.nodes[n].reads, &p.nodes[n].makes})
        for (const int v : *list) {
          Span& s = spans[static_cast<size_t>(v)];
          s.low = std::min(s.low, it->second);
          s.high = std::max(s.high, it->second);
        }
    }
    for (const Span& s : spans)
      if (s.low < s.high) {
        ++gaps_[s.low + 1];
        --gaps_[s.high + 1];
      }
    for (size_t i = 1; i < gaps_.size(); ++i) gaps_[i] += gaps_[i - 1];
  }
  /// Values that cross from child i - 1 to child i.
  int Before(size_t i) const { return gaps_[i]; }

 private:
  std::vector<int> gaps_;
};

/// Nodes and groups of a group in the order of the program; inputs and outputs are not cut off.
std::vector<Child> ChildrenToCut(const Picture& p, int group) {
  std::vector<Child> children;
  std::vector<bool> seen(p.groups.size(), false);
  for (size_t n = 0; n < p.nodes.size(); ++n) {
    if (p.nodes[n].kind != PictureNode::Kind::kOperator) continue;
    const Child c = ChildHolding(p, group, static_cast<int>(n));
    if (c.index < 0) continue;
    if (c.kind == Child::Kind::kGroup) {
      if (seen[static_cast<size_t>(c.index)]) continue;
      seen[static_cast<size_t>(c.index)] = true;
    }
    children.push_back(c);
  }
  return children;
}

/// About as many parts as a part has children. Of the places with the fewest values the one that
/// makes a part of middle size.
std::vector<size_t> PlacesToCut(const Crossing& crossing, size_t count) {
  const size_t most =
      std::max(kMostPart, static_cast<size_t>(std::sqrt(static_cast<double>(count))));
  const size_t least = most / 3, middle = 2 * least;
  std::vector<size_t> cuts = {0};
  while (count - cuts.back() > most) {
    const size_t from = cuts.back();
    size_t best = from + least;
    const auto worth = [&](size_t i) {
      const size_t size = i - from;
      return std::pair(crossing.Before(i), size > middle ? size - middle : middle - size);
    };
    for (size_t i = best; i <= from + most && i + least <= count; ++i)
      if (worth(i) < worth(best)) best = i;
    cuts.push_back(best);
  }
  cuts.push_back(count);
  return cuts;
}

void CutGroup(Picture& p, int group) {
  const std::vector<Child> children = ChildrenToCut(p, group);
  if (children.size() <= kMaxChildren) return;
  std::map<std::pair<bool, int>, size_t> at;
  for (size_t i = 0; i < children.size(); ++i)
    at[{children[i].kind == Child::Kind::kGroup, children[i].index}] = i;
  const std::vector<size_t> cuts =
      PlacesToCut(Crossing(p, group, at, children.size()), children.size());
  for (size_t k = 0; k + 1 < cuts.size(); ++k) {
    const auto part = static_cast<int>(p.groups.size());
    auto& made = p.groups.emplace_back();
    made.kind = PictureGroup::Kind::kPart;
    made.parent = group;
    made.label = Cat("part ", k + 1, " of ", cuts.size() - 1);
    for (size_t i = cuts[k]; i < cuts[k + 1]; ++i)
      if (children[i].kind == Child::Kind::kGroup)
        p.groups[static_cast<size_t>(children[i].index)].parent = part;
      else
        p.nodes[static_cast<size_t>(children[i].index)].group = part;
  }
}

}  // namespace

Child ChildHolding(const Picture& p, int group, int node) {
  const PictureNode& n = p.nodes[static_cast<size_t>(node)];
  if (n.group == group)
    return n.bodies >= 0 ? Child{Child::Kind::kGroup, n.bodies} : Child{Child::Kind::kNode, node};
  const int below = GroupBelow(p, group, n.group);
  return below < 0 ? Child{Child::Kind::kNode, -1} : Child{Child::Kind::kGroup, below};
}

void GroupByScope(Picture& p, size_t first, size_t end, int base) {
  std::unordered_map<const Node*, std::vector<std::string>> parts;
  // Readers come later, and their scopes first. Of two graphs each has an order of its own.
  for (size_t n = end; n-- > first;)
    if (const Node* node = p.nodes[n].node) {
      auto own = PartsOfName(p.nodes[n]);
      parts[node] = own.size() > 1 ? std::move(own) : PartsOfReaders(*node, std::move(own), parts);
    }
  ScopeGrouping scopes(p, base);
  for (size_t n = first; n < end; ++n)
    if (p.nodes[n].node) scopes.Add(n, parts[p.nodes[n].node]);
  scopes.MakeGroups();
}

void GroupReplaced(Picture& p) {
  for (size_t n = 0; n < p.nodes.size(); ++n) {
    if (p.nodes[n].fate != Fate::kAdded) continue;
    std::vector<int> alone;  // what it alone replaced, or replaced first
    for (const int b : p.nodes[n].partners)
      if (p.nodes[static_cast<size_t>(b)].partners.front() == static_cast<int>(n))
        alone.push_back(b);
    if (alone.size() < 2) continue;
    const auto group = static_cast<int>(p.groups.size());
    auto& made = p.groups.emplace_back();
    made.kind = PictureGroup::Kind::kReplaced;
    made.parent = p.nodes[n].group;
    std::vector<std::string> ops;
    for (const int b : alone) ops.emplace_back(p.nodes[static_cast<size_t>(b)].node->op());
    ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
    made.label = Join(ops, ", ");
    for (const int b : alone) p.nodes[static_cast<size_t>(b)].group = group;
  }
}

void CutLargeGroups(Picture& p) {
  std::vector<size_t> children(p.groups.size(), 0);
  for (const PictureNode& n : p.nodes) ++children[static_cast<size_t>(n.group)];
  for (const PictureGroup& g : p.groups)
    if (g.parent >= 0) ++children[static_cast<size_t>(g.parent)];
  for (size_t g = 0; g < children.size(); ++g)
    if (children[g] > kMaxChildren) CutGroup(p, static_cast<int>(g));
}

}  // namespace infer
