#include "quant/prune/groups.h"

#include <algorithm>
#include <set>

#include "lib/support/strings.h"
#include "quant/prune/units.h"

namespace infer {
namespace {

/// Units of one axis that may fail before the others are not tried any more.
constexpr int kMostRefusals = 64;

std::string LayerName(const Node& n) {
  if (!n.name().empty()) return n.name();
  for (const Value* v : n.outputs())
    if (v) return v->name();
  return std::string(n.op());
}

/// Operand 0 is a table of numbers, whose rows it looks up.
bool LooksUpRows(const Node& n) {
  return n.Is(Trait::kSliceLookup) && n.input(0) && n.input(0)->is_constant() &&
         IsFloat(n.input(0)->dtype()) && !n.input(1)->is_constant();
}

class GroupFinder {
 public:
  GroupFinder(const Graph& g, const std::vector<PrunableWeights>& layers) : g_(g) {
    for (const PrunableWeights& w : layers) layers_[w.weights] = &w;
  }

  std::vector<ChannelGroup> Find() {
    for (const auto& n : g_.nodes()) FromNode(*n);
    return std::move(groups_);
  }

 private:
  /// Axes of results that constant weights give their indices.
  void FromNode(const Node& node) {
    const std::vector<NodeLink> links = links_.Of(node);
    const auto from_operand = [&](size_t operand) {
      for (const NodeLink& l : links)
        if (l.kind == AxisLink::Kind::kSame && l.a.value == operand)
          FromAxis(node, {node.output(l.b.value), l.b.axis});
    };
    if (LooksUpRows(node)) from_operand(0);
    for (const NodeLink& product : links) {
      if (product.kind != AxisLink::Kind::kContracted) continue;
      for (const bool forth : {false, true}) {
        const size_t operand = forth ? product.a.value : product.b.value;
        if (const Value* const w = node.input(operand); w && w->is_constant())
          from_operand(operand);
      }
    }
  }

  void FromAxis(const Node& node, const AxisKey& at) {
    if (!seen_.insert(at).second) return;
    const int64_t width = at.first->shape()[at.second].value();
    if (width < 2) return;
    if (taken_.contains(at)) return;
    ChannelGroup group;
    group.name = LayerName(node);
    group.width = width;
    group.axis = {at.first->name(), at.second};
    std::vector<Unit> units;
    std::set<int64_t> done;
    AxisChoices choices;
    int refused = 0;
    for (int64_t i = 0; i < width && refused < kMostRefusals; ++i) {
      if (done.contains(i)) continue;
      Unit u = finder_.Find(at, {i}, choices);
      if (u.reason.empty()) u.reason = WhyTaken(u);
      if (u.reason.empty()) u.reason = WhyNotWeights(u);
      if (!u.reason.empty()) {
        if (group.reason.empty()) group.reason = u.reason;
        ++refused;
        continue;
      }
      choices.insert(u.choices.begin(), u.choices.end());
      const IndexSet& own = u.cut.at(at);
      if (std::any_of(own.begin(), own.end(), [&](int64_t k) { return done.contains(k); }))
        continue;
      done.insert(own.begin(), own.end());
      group.heads = group.heads || u.heads;
      units.push_back(std::move(u));
    }
    if (units.size() > 1) {
      group.reason.clear();
      Fill(units, group);
    } else if (group.reason.empty()) {
      group.reason = "its channels can only go all together";
    }
    groups_.push_back(std::move(group));
  }

  /// Axes of a unit that another group has already.
  std::string WhyTaken(const Unit& u) const {
    for (const auto& [key, set] : u.cut)
      if (const auto it = taken_.find(key); it != taken_.end())
        for (const int64_t i : set)
          if (it->second.contains(i))
            return Cat("'", key.first->name(), "' is part of the group of ",
                       groups_[it->second.at(i)].name);
    return "";
  }

  struct Roles {
    std::vector<WeightsOfGroup> producers, readers;
  };

  Roles RolesOf(const Unit& u) {
    Roles roles;
    const auto add = [](std::vector<WeightsOfGroup>& to, const Node& n, const AxisKey& key) {
      const std::string& out = n.output(0) ? n.output(0)->name() : key.first->name();
      Merge({{LayerName(n), std::string(n.op()), key.first->name(), out, key.second}}, to);
    };
    for (const auto& [key, set] : u.cut) {
      if (!key.first->is_constant()) continue;
      for (const Use& use : key.first->uses()) {
        bool reads = false, makes = false;
        bool is_product = use.operand == 0 && LooksUpRows(*use.user);  // with one number of the row
        for (const NodeLink& l : links_.Of(*use.user))
          for (const LinkSide* side : {&l.a, &l.b}) {
            if (side->is_result || side->value != use.operand) continue;
            const bool contracted = l.kind == AxisLink::Kind::kContracted;
            is_product = is_product || contracted;
            if (side->axis != key.second || FitOf(*side, set) != LinkFit::kWhole) continue;
            (contracted ? reads : makes) = true;
          }
        if (reads) add(roles.readers, *use.user, key);
        if (makes && is_product) add(roles.producers, *use.user, key);
      }
    }
    return roles;
  }

  std::string WhyNotWeights(const Unit& u) {
    const Roles roles = RolesOf(u);
    if (roles.readers.empty()) return "no weights multiply it, so that nothing can make up for it";
    for (const auto* part : {&roles.producers, &roles.readers})
      for (const WeightsOfGroup& w : *part) {
        const auto it = layers_.find(w.weights);
        if (part == &roles.producers && it == layers_.end() && IsTable(w)) continue;
        if (it == layers_.end()) return Cat("the weights of ", w.layer, " are not known as such");
        if (!it->second->reason.empty()) return Cat(w.layer, ": ", it->second->reason);
      }
    return "";
  }

  /// Rows of it are looked up, and nothing multiplies it.
  bool IsTable(const WeightsOfGroup& w) const {
    const Value& v = *g_.FindValue(w.weights);
    return !v.is_output() && std::all_of(v.uses().begin(), v.uses().end(), [](const Use& u) {
      return u.operand == 0 && LooksUpRows(*u.user);
    });
  }

  void Fill(const std::vector<Unit>& units, ChannelGroup& group) {
    Roles roles;
    for (const Unit& u : units) {
      AxisCuts cuts;
      for (const auto& [key, set] : u.cut) {
        cuts[{key.first->name(), key.second}] = set;
        for (const int64_t i : set) taken_[key][i] = groups_.size();
      }
      group.units.push_back(std::move(cuts));
      const Roles own = RolesOf(u);
      Merge(own.producers, group.producers);
      Merge(own.readers, group.readers);
    }
  }

  static void Merge(const std::vector<WeightsOfGroup>& more, std::vector<WeightsOfGroup>& all) {
    for (const WeightsOfGroup& w : more)
      if (std::none_of(all.begin(), all.end(), [&](const WeightsOfGroup& k) {
            return k.weights == w.weights && k.output == w.output && k.axis == w.axis;
          }))
        all.push_back(w);
  }

  const Graph& g_;
  std::map<std::string, const PrunableWeights*> layers_;
  LinkTable links_;
  UnitFinder finder_{links_};
  std::set<AxisKey> seen_;
  std::map<AxisKey, std::map<int64_t, size_t>, AxisKeyByName> taken_;  // the group of an index
  std::vector<ChannelGroup> groups_;
};

}  // namespace

int64_t ChannelGroup::unit_width() const {
  if (units.empty()) return 1;
  const auto it = units.front().find(axis);
  return it == units.front().end() ? 1 : static_cast<int64_t>(it->second.size());
}

UnitLimits::UnitLimits(const ChannelGroup& group) {
  std::map<AxisName, size_t> axes;
  for (const AxisCuts& unit : group.units) {
    std::vector<std::pair<size_t, int64_t>> own;
    for (const auto& [key, set] : unit) {
      const auto [it, is_new] = axes.emplace(key, left_.size());
      if (is_new) left_.push_back(0);
      left_[it->second] += static_cast<int64_t>(set.size());
      own.emplace_back(it->second, static_cast<int64_t>(set.size()));
    }
    of_unit_.push_back(std::move(own));
  }
}

bool UnitLimits::Allows(int64_t unit) const {
  const auto& own = of_unit_[static_cast<size_t>(unit)];
  return std::all_of(own.begin(), own.end(),
                     [&](const auto& a) { return left_[a.first] > a.second; });
}

void UnitLimits::Remove(int64_t unit) {
  for (const auto& [axis, count] : of_unit_[static_cast<size_t>(unit)]) left_[axis] -= count;
}

std::vector<int64_t> FirstUnits(const ChannelGroup& group, int64_t count) {
  UnitLimits limits(group);
  std::vector<int64_t> units;
  for (int64_t u = 0;
       u < static_cast<int64_t>(group.units.size()) && static_cast<int64_t>(units.size()) < count;
       ++u) {
    if (!limits.Allows(u)) continue;
    limits.Remove(u);
    units.push_back(u);
  }
  return units;
}

std::vector<ChannelGroup> FindGroups(const Graph& g, const std::vector<PrunableWeights>& layers) {
  return GroupFinder(g, layers).Find();
}

AxisCuts CutsOf(const ChannelGroup& group, std::span<const int64_t> units) {
  AxisCuts cuts;
  for (const int64_t u : units) AddCuts(group.units[static_cast<size_t>(u)], cuts);
  return cuts;
}

void AddCuts(const AxisCuts& more, AxisCuts& cuts) {
  for (const auto& [key, set] : more) Grow(set, cuts[key]);
}

}  // namespace infer
