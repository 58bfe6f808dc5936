#include "quant/prune/units.h"

#include <algorithm>
#include <optional>

#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int kMostWays = 48;  // that merged axes are tried in, for one unit

bool IsActivation(const Value* v) { return v && !v->is_constant(); }

/// Queries, keys and values come in one operand.
bool IsPacked(const Node& n) {
  for (size_t i = 0; i < n.def().inputs.size(); ++i)
    if (n.def().inputs[i].name == "key" || n.def().inputs[i].name == "value")
      if (!n.input(i)) return true;
  return false;
}

/// Why an operator whose axis has no link cannot lose indices of it.
std::string_view WhyMixed(const Node& n) {
  if (!n.subgraphs().empty()) return "hands it to a subgraph";
  if (n.Is(Trait::kReduction)) return "makes one number of the whole axis";
  if (n.Is(Trait::kSoftmax)) return "shares out one over the axis";
  if (n.Is(Trait::kNormalization))
    return "normalizes over the axis: without channels its statistics are others";
  if (n.Is(Trait::kRecurrent)) return "mixes the axis in every step";
  if (n.Is(Trait::kView)) return "cuts the axis in other places";
  if (n.Is(Trait::kAttention) && IsPacked(n))
    return "takes queries, keys and values packed in one operand, of which heads do not leave";
  return "mixes the axis, or tells nothing of it";
}

class UnitClosure {
 public:
  UnitClosure(LinkTable& links, const AxisChoices& choices) : links_(links) {
    unit_.choices = choices;
  }

  /// The merged axis at which a choice is missing, and the links to choose from.
  struct Open {
    MergedAxis at;
    std::vector<size_t> links;
  };

  void Run(const AxisKey& at, const IndexSet& start) {
    Add(at, start);
    while (!todo_.empty() && unit_.reason.empty() && !open_) {
      const AxisKey key = *todo_.begin();
      todo_.erase(todo_.begin());
      Visit(key);
    }
  }
  const std::optional<Open>& open() const { return open_; }
  Unit TakeUnit() { return std::move(unit_); }

 private:
  void Add(const AxisKey& key, const IndexSet& more) {
    if (Grow(more, unit_.cut[key])) todo_.insert(key);
  }

  void Visit(const AxisKey& key) {
    const Value& v = *key.first;
    if (v.is_input()) return Refuse(Cat("'", v.name(), "' is an input of the graph"));
    if (v.is_output()) return Refuse(Cat("'", v.name(), "' is an output of the graph"));
    if (const Dim& d = v.shape()[key.second];
        d.is_static() && d.value() == static_cast<int64_t>(unit_.cut[key].size()))
      return Refuse(Cat("nothing of '", v.name(), "' would be left"));
    if (v.producer()) See(*v.producer(), true, v.producer_index(), key);
    for (const Use& u : v.uses()) {
      if (!unit_.reason.empty() || open_) return;
      if (u.operand + u.user->num_captures() >= u.user->inputs().size())
        return Refuse(Cat(Describe(*u.user), " reads it in a subgraph"));
      See(*u.user, false, u.operand, key);
    }
  }

  /// What the node asks for where `key` is its operand or result.
  void See(const Node& node, bool is_result, size_t value, const AxisKey& key) {
    if (!is_result && node.Is(Trait::kShapeMath)) return;  // extents follow by themselves
    if (is_result && node.Is("ConstantOfShape")) return;   // any part of it is like any other
    const std::vector<NodeLink>& links = links_.Of(node);
    bool is_linked = false;
    for (;;) {
      std::vector<size_t> neither, all;
      for (size_t i = 0; i < links.size(); ++i)
        for (const bool forth : {true, false}) {
          const LinkSide& side = forth ? links[i].a : links[i].b;
          if (side.is_result != is_result || side.value != value || side.axis != key.second)
            continue;
          is_linked = true;
          const LinkFit fit = FitOf(side, unit_.cut[key]);
          if (fit != LinkFit::kOutside) all.push_back(i);
          if (fit == LinkFit::kNeither) neither.push_back(i);
        }
      if (neither.empty()) {
        Pass(node, is_result, value, key, all);
        break;
      }
      const MergedAxis at{&node, is_result, value, key.second};
      const auto chosen = unit_.choices.find(at);
      size_t by = neither.front();
      if (chosen != unit_.choices.end() &&
          std::find(neither.begin(), neither.end(), chosen->second) != neither.end()) {
        by = chosen->second;
      } else if (neither.size() > 1) {
        open_ = Open{at, neither};
        return;
      }
      const LinkSide& side = SideAt(links[by], is_result, value, key.second);
      Add(key, IndicesOf(side, LabelsOf(side, unit_.cut[key])));
    }
    if (!is_linked && unit_.reason.empty()) Refuse(Cat(Describe(node), " ", WhyMixed(node)));
  }

  static const LinkSide& SideAt(const NodeLink& l, bool is_result, size_t value, int axis) {
    const bool is_a = l.a.is_result == is_result && l.a.value == value && l.a.axis == axis;
    return is_a ? l.a : l.b;
  }

  /// All links fit: those that fit as a whole carry the cut to their other side.
  void Pass(const Node& node, bool is_result, size_t value, const AxisKey& key,
            const std::vector<size_t>& which) {
    const IndexSet cut = unit_.cut[key];
    IndexSet carried;
    bool from_data = !is_result || !node.IsAny(Trait::kNormalization | Trait::kSoftmax);
    for (const size_t i : which) {
      const NodeLink& l = links_.Of(node)[i];
      const LinkSide& side = SideAt(l, is_result, value, key.second);
      const LinkSide& other = &side == &l.a ? l.b : l.a;
      if (FitOf(side, cut) != LinkFit::kWhole) continue;
      const IndexSet labels = LabelsOf(side, cut);
      Grow(IndicesOf(side, labels), carried);
      from_data = from_data || other.value == 0;  // not the scale of a normalization alone
      const Value* const to = other.is_result ? node.output(other.value) : node.input(other.value);
      Note(node, l);
      Add({to, other.axis}, IndicesOf(other, labels));
    }
    if (!from_data || (is_result ? carried != cut : carried.empty() && !which.empty()))
      Refuse(Cat(Describe(node), " ", WhyMixed(node)));
  }

  void Note(const Node& node, const NodeLink& link) {
    if (link.kind == AxisLink::Kind::kContracted) {
      unit_.products = unit_.products || (IsActivation(node.input(link.a.value)) &&
                                          IsActivation(node.input(link.b.value)));
      return;
    }
    bool multiplies = node.Is(Trait::kAttention);
    std::set<size_t> sharing;
    for (const NodeLink& l : links_.Of(node)) {
      const bool activation = IsActivation(node.input(l.a.value));
      if (l.kind == AxisLink::Kind::kContracted)
        multiplies = multiplies || (activation && IsActivation(node.input(l.b.value)));
      else if (activation && l.b.axis == link.b.axis && l.b.value == link.b.value &&
               l.a.indices.size() == link.a.indices.size())
        sharing.insert(l.a.value);
    }
    unit_.heads = unit_.heads || (multiplies && sharing.size() > 1);
  }

  void Refuse(std::string reason) {
    if (unit_.reason.empty()) unit_.reason = std::move(reason);
  }

  LinkTable& links_;
  Unit unit_;
  std::set<AxisKey, AxisKeyByName> todo_;
  std::optional<Open> open_;
};

/// `at`: where both begin.
bool IsBetter(const Unit& a, const Unit& b, const AxisKey& at) {
  if (a.reason.empty() != b.reason.empty()) return a.reason.empty();
  if (a.products != b.products) return !a.products;
  if (a.heads != b.heads) return a.heads;
  return a.cut.at(at).size() < b.cut.at(at).size();
}

}  // namespace

void UnitFinder::Explore(const AxisKey& at, const IndexSet& start, const AxisChoices& choices,
                         int& tries, std::vector<Unit>& found) {
  if (--tries < 0) return;
  UnitClosure closure(links_, choices);
  closure.Run(at, start);
  if (!closure.open()) {
    found.push_back(closure.TakeUnit());
    return;
  }
  for (const size_t link : closure.open()->links) {
    AxisChoices more = choices;
    more[closure.open()->at] = link;
    Explore(at, start, more, tries, found);
  }
}

Unit UnitFinder::Find(const AxisKey& at, const IndexSet& start, const AxisChoices& choices) {
  std::vector<Unit> found;
  int tries = kMostWays;
  Explore(at, start, choices, tries, found);
  if (found.empty()) {
    Unit none;
    none.reason = "its axes are merged in too many ways";
    return none;
  }
  auto best = found.begin();
  for (auto u = found.begin(); u != found.end(); ++u)
    if (IsBetter(*u, *best, at)) best = u;
  if (best->products && best->reason.empty())
    best->reason = "two results of the model are multiplied and summed along it";
  return std::move(*best);
}

}  // namespace infer
