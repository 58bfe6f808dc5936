#pragma once
/// Channels that have to leave a graph together: dependency groups, found from the links between
/// axes that operators state (lib/ops/axes.h). Reads the graph, changes nothing.
///
/// A unit is a set of indices along axes of values that is closed: what is removed of one value is
/// read only by what is removed, too, or by weights that multiply it, which lose the same rows or
/// columns. Without those weights the rest of the model computes the same. Units of a group lie
/// along the same axes; any of them may go, and each that stays keeps its numbers.
///
/// Where an axis is several ones merged (heads and their elements, positions and groups of a
/// grouped convolution), each of them gives units of its own; heads of attention are preferred,
/// then the smallest unit.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "quant/prune/layers.h"

namespace infer {

/// An axis (from the front) of a value, by its name.
using AxisName = std::pair<std::string, int>;
/// Indices that are removed, ascending.
using AxisCuts = std::map<AxisName, std::vector<int64_t>>;

/// Constant weights that a group cuts.
struct WeightsOfGroup {
  std::string layer, op;  ///< of the node, for people
  std::string weights;    ///< the constant
  std::string output;     ///< result 0 of the node
  int axis = 0;           ///< of the constant, that is cut
};

struct ChannelGroup {
  std::string name;                       ///< the first layer that makes these channels
  bool heads = false;                     ///< units are heads of attention
  int64_t width = 0;                      ///< channels of that layer
  std::vector<AxisCuts> units;            ///< disjoint; in the order of their first index
  std::vector<WeightsOfGroup> producers;  ///< layers that make the channels
  std::vector<WeightsOfGroup> readers;    ///< layers that multiply them
  std::string reason;                     ///< why no unit can go; "" where they can
  /// Channels of the first layer that a unit takes.
  int64_t unit_width() const;
  AxisName axis;  ///< of the first layer's result
};

/// Which units may still go: of every axis that a group cuts, one of its indices stays.
class UnitLimits {
 public:
  explicit UnitLimits(const ChannelGroup& group);
  bool Allows(int64_t unit) const;
  void Remove(int64_t unit);

 private:
  std::vector<int64_t> left_;                                     // by axis
  std::vector<std::vector<std::pair<size_t, int64_t>>> of_unit_;  // (axis, indices)
};
/// The first `count` units that may go together; fewer where no more may.
std::vector<int64_t> FirstUnits(const ChannelGroup& group, int64_t count);

/// In topological order of the first layers. `layers`: FindPrunable of the same graph; a group with
/// weights that are excluded there has the reason. Groups whose channels reach an input or output
/// of the graph, or an operator that mixes them, have one as well.
std::vector<ChannelGroup> FindGroups(const Graph& g, const std::vector<PrunableWeights>& layers);

/// What the units at these positions remove together.
AxisCuts CutsOf(const ChannelGroup& group, std::span<const int64_t> units);
/// Adds the cuts of `more`, which are of other indices.
void AddCuts(const AxisCuts& more, AxisCuts& cuts);

}  // namespace infer
