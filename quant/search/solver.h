#pragma once
/// Which precision each layer gets: a knapsack over what was measured. Numbers only, no graph.
///
/// Dynamic programming over layers. Sums are exact; where two partial choices fall into the same
/// bucket of bytes and time, the one of less error is kept. Buckets span the sums reached so far,
/// in equal ratios, and small layers come first: they are decided as carefully as large ones. With
/// terms of neighbours layers keep their order, and the last one's mark is part of a state. After
/// SPDY (Frantar & Alistarh 2022, arXiv 2201.13096, section 4.1), which rounds costs instead.
#include <cstdint>
#include <span>
#include <vector>

namespace infer {

/// What one precision costs in one layer.
struct LayerCost {
  double error = 0;  ///< at the model's outputs; adds over layers
  int64_t bytes = 0;
  double ms = 0;
};

struct Assignment {
  std::vector<int> choice;  ///< per layer: index into its costs
  LayerCost total;
};

struct SolverOptions {
  int buckets = 16384;  ///< in all: of the one cost that differs, or of bytes times time
};

/// What neighbours in the order of the layers have in common: a change of type between a layer that
/// computes in integers and one that does not, which two that do not share.
struct ChainTerms {
  std::vector<std::vector<bool>> marked;  ///< per layer and option: not in integers
  /// [l]: added to the time where the options of l and l + 1 are both marked; mostly below 0.
  std::vector<double> ms;
};

/// Choices of which no other is at most as large in error, bytes and time at once, by bytes.
/// Exact as long as no two partial sums meet in a bucket. Pre: every layer has a cost.
std::vector<Assignment> SolvePrecisions(std::span<const std::vector<LayerCost>> layers,
                                        const SolverOptions& options = {},
                                        const ChainTerms* chain = nullptr);
/// What a choice costs in all.
LayerCost TotalOf(std::span<const std::vector<LayerCost>> layers, std::span<const int> choice,
                  const ChainTerms* chain = nullptr);

}  // namespace infer
