#pragma once
/// One unit of channels: from some indices of one axis to everything that has to go with them.
#include <map>
#include <set>
#include <string>

#include "quant/prune/axis_sets.h"

namespace infer {

using UnitCut = std::map<AxisKey, IndexSet, AxisKeyByName>;

/// A place where an axis is several ones merged: which of them a unit follows.
struct MergedAxis {
  const Node* node = nullptr;
  bool is_result = false;
  size_t value = 0;
  int axis = 0;
  auto operator<=>(const MergedAxis&) const = default;
};
/// Position of the link in LinkTable::Of(node).
using AxisChoices = std::map<MergedAxis, size_t>;

struct Unit {
  UnitCut cut;
  std::string reason;  ///< why it cannot go; "" where it can
  AxisChoices choices;
  bool heads = false;     ///< it runs along axes that several activations share: heads
  bool products = false;  ///< two activations are multiplied and summed along its axes
};

class UnitFinder {
 public:
  explicit UnitFinder(LinkTable& links) : links_(links) {}
  /// The unit of `start`. At merged axes it follows `choices`; where they say nothing, all ways are
  /// tried, and the best one is taken: one that can go, no elements of heads, heads, fewest
  /// indices.
  Unit Find(const AxisKey& at, const IndexSet& start, const AxisChoices& choices);

 private:
  struct Attempt;
  void Explore(const AxisKey& at, const IndexSet& start, const AxisChoices& choices, int& tries,
               std::vector<Unit>& found);
  LinkTable& links_;
};

}  // namespace infer
