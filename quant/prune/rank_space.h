#pragma once
/// Which products of a model can be split in two, at which ranks, and what that saves.
#include "quant/prune/low_rank.h"
#include "quant/prune/split_layer.h"

namespace infer {

/// A rank at which two products are smaller and faster than one.
struct RankLevel {
  int64_t rank = 0;
  int64_t bytes = 0;  ///< of both factors, and about what their names take in a file
  double us = 0;      ///< of all readers, by the cost table
};

/// A layer that can be split.
struct RankedLayer {
  size_t report = 0;  ///< its index in RankSpace::layers
  int64_t bytes = 0;  ///< of its weights
  double us = 0;
  std::vector<RankLevel> levels;  ///< by rank, ascending; never empty
};

struct RankSpace {
  /// Errors as SplitProducts, but for those of the goal's value.
  static Result<RankSpace> Make(const Graph& original, const Samples& samples,
                                const Backend& backend, const LowRankOptions& options);

  Graph work;                            ///< prepared, dense
  Graph counted;                         ///< the same, of the first sample's extents
  std::vector<PrunableWeights> weights;  ///< of `work`
  std::vector<SplitProduct> layers;      ///< as `weights`
  std::vector<RankedLayer> ranked;       ///< those with levels

 private:
  explicit RankSpace(const Graph& original) : work(original.Clone()), counted(original.ops()) {}
};

/// Multiples of `multiple` (of its half, quarter, ... where the full rank is below twice of it) at
/// which two products have fewer weights than one: at most 12, spread evenly, the least and the
/// largest among them.
std::vector<int64_t> RanksOf(int64_t rows, int64_t depth, int64_t multiple);
/// The multiple that is nearest to `share` of the full rank, at least one.
int64_t RankOfShare(int64_t rows, int64_t depth, int64_t multiple, double share);

/// The graph with the extents of the first sample.
Result<Graph> OfFirstSample(const Graph& g, const Samples& samples);

/// Factors that only tell how much work there is: none of their numbers is 0.
LowRankFactors SomeFactors(const WeightPlane& plane, int64_t rank);

}  // namespace infer
