#pragma once
/// What pruning a layer costs, before any is pruned: by data at the model's outputs, or by the
/// weights alone.
#include "quant/prune/allocate.h"
#include "quant/prune/prune.h"

namespace infer {

/// A layer that will be pruned.
struct SelectedLayer {
  PrunableWeights weights;
  int64_t units = 0;
  int64_t zero_units = 0;               ///< that it gives up
  KeepMask keep = {};                   ///< which weights stay; empty: not decided yet
  std::optional<WeightGrid> grid = {};  ///< LayerJob::grid
};

/// Layers [begin, end) whose moments are summed in one pass: at most `most`, as many as the budget
/// holds, at least one.
struct MomentsBatch {
  size_t end = 0;
  std::vector<std::vector<float>> dense;  ///< weights in `work`
  std::vector<MomentsRequest> requests;   ///< views of them
};
MomentsBatch NextBatch(const Graph& work, std::span<const SelectedLayer> layers, size_t begin,
                       size_t most, int64_t max_bytes);

/// No second moments are summed for it: scores alone.
bool IsTooDeep(const SelectedLayer& layer);

/// Of the calibration samples: what moments for costs are summed of, and those of them that judge
/// costs, which no layer's weights are fitted to (of few samples all: rows are held out of each).
struct CostSamples {
  Samples curve, judge;
};
CostSamples CostSamplesOf(const Samples& samples);

/// Measures: prunes each layer alone to the share asked for (N:M: to the pattern), runs the model
/// on some of `samples` and scales the layer's own error curve by the noise at the outputs. The
/// cost at the share is that noise. `original` is the model as it came, `work` prepared.
struct MeasuredCosts {
  std::vector<CostCurve> curves;
  std::vector<double> at_share;
};
Result<MeasuredCosts> MeasureCosts(const Graph& original, const Graph& work,
                                   std::span<const SelectedLayer> layers, const Samples& samples,
                                   const Backend& backend, const PruneOptions& options);

/// Units to zero by layer, by |w| over all layers (kGlobal) or LAMP's scores (kLamp).
std::vector<int64_t> AllocateByWeights(const Graph& work, std::span<const SelectedLayer> layers,
                                       const SparsityPattern& pattern, PruneAllocation by,
                                       int64_t total);

}  // namespace infer
