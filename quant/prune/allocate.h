#pragma once
/// How many units each layer gives up, so that all together give up exactly what was asked for. No
/// graph and no data here.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace infer {

/// Cost of pruning one layer: how far the model's outputs move.
struct CostCurve {
  int64_t units = 0;  ///< in all
  /// (units that are zero, cost), ascending in both, without (0, 0).
  std::vector<std::pair<int64_t, double>> points;
};

/// Units to zero, by layer; their sum is `total`. Least sum of costs over the lower convex hulls of
/// the curves, linear between points: layers give up units in the order of what one more costs.
/// Beyond its last point a layer costs without bound, and gives up more only when all are there.
/// Pre: 0 <= total <= the sum of units.
std::vector<int64_t> AllocateByCost(std::span<const CostCurve> curves, int64_t total);

/// The same share of every layer, rounded so that the sum is `total`.
std::vector<int64_t> AllocateEvenly(std::span<const int64_t> units, int64_t total);

/// N:M cannot be shared out: some layers may stay dense instead. `weights` and `costs` by layer;
/// the layers that cost most per weight, as long as they hold at most `share` of all weights
/// together. Ascending indices.
std::vector<size_t> LayersToSpare(std::span<const int64_t> weights, std::span<const double> costs,
                                  double share);

}  // namespace infer
