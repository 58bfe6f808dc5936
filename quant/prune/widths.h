#pragma once
/// How many units each group gives up, so that the work or the bytes of the model fall to a goal at
/// the least cost. No graph and no data here.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lib/support/status.h"

namespace infer {

/// A part of the model's work or bytes, and how it shrinks with the groups it lies between: times
/// (share of the units that stay)^exponent for each.
struct WorkItem {
  double base = 0;
  std::vector<std::pair<size_t, double>> groups;  ///< (group, exponent)
};

/// What a group may become.
struct WidthCurve {
  int64_t units = 0;
  /// (units that are gone, cost at the outputs), ascending, without (0, 0).
  std::vector<std::pair<int64_t, double>> levels;
};

/// Work when `gone[i]` units of group i are gone.
double WorkOf(std::span<const WorkItem> items, std::span<const WidthCurve> curves,
              std::span<const int64_t> gone);

/// Units to remove, by group, until the work is at most `goal`: step by step the group and level
/// that save most for their cost, savings beyond the goal not counted; then those that later ones
/// have made needless are taken back, the dearest first. Unsupported: all levels
/// together do not reach it; the message tells what they do reach, as a share of all work.
Result<std::vector<int64_t>> AllocateWidths(std::span<const WorkItem> items,
                                            std::span<const WidthCurve> curves, double goal);

/// Units that may go: widths that stay are multiples of `multiple` channels where a unit is one
/// channel (of its half, quarter, ... where there are not twice as many), else any; at least one
/// unit (one multiple) stays.
std::vector<int64_t> LevelsOf(int64_t units, int64_t unit_width, int64_t width, int64_t multiple);

}  // namespace infer
