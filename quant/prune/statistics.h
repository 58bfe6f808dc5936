#pragma once
/// Statistics of BatchNormalizations that stand in the graph: those that preparing folds into no
/// layer, as in front of an activation. They were taken of the dense model, whose channels vary
/// more than those of a pruned one.
#include "quant/calibrate/calibrate.h"

namespace infer {

struct StatisticsOptions {
  int threads = 0;
  std::stop_token stop = {};
};

/// The normalizations of `g` whose statistics are f32 constants that nothing else reads, by their
/// first output, in order. Normalizations that train have none.
std::vector<std::string> EstimatedStatistics(const Graph& g);

/// Gives `names` (of EstimatedStatistics, in order) in `pruned` the statistics that their inputs
/// have there: the mean moves by as much as that of the samples moved from `dense` to `pruned`, the
/// variance by the same factor. So a model that is not pruned keeps its numbers, bit for bit,
/// whatever the samples are. Pre: values of these names have the same extents in both; samples.
/// Normalizations that feed others come first, each batch in a run of its own.
Status EstimateStatistics(const Graph& dense, Graph& pruned, std::span<const std::string> names,
                          const Samples& samples, const Backend& backend,
                          const StatisticsOptions& options);

}  // namespace infer
