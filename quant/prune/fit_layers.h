#pragma once
/// Fits the layers of a model that is to lose channels, while these are still there: the weights
/// that read them are zero.
#include "quant/prune/structured.h"

namespace infer {

struct FittedChannels {
  Graph graph;  ///< of the extents of the dense model
  std::vector<FittedLayer> layers;
  int64_t statistics = 0;  ///< as ChannelReport has it
};

/// Layers first to last, each to what it makes in `work`, the dense model, with zeros where
/// `readers` cuts its weights; without samples nothing but the zeros. Statistics of
/// BatchNormalizations are estimated anew where that brings the outputs nearer to the dense ones.
Result<FittedChannels> FitLayers(const Graph& work, const std::vector<PrunableWeights>& layers,
                                 const AxisCuts& readers, const Samples& samples,
                                 const Backend& backend, const ChannelOptions& options);

}  // namespace infer
