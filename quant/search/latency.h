#pragma once
/// What each layer takes in a program, from profiles of whole programs that run in turns.
#include <stop_token>

#include "runtime/api/program.h"

namespace infer {

struct LayerTimes {
  std::vector<double> ms;  ///< by the index in the tag "layer:INDEX" (MixedModel::Apply)
  double other_ms = 0;     ///< steps without a layer: pools, additions, quantization at the edges
};

/// One per graph: medians over profiled runs, at least 7 and up to a second for each graph, the
/// graphs in turns. A step that computes several layers counts in equal parts. Pre: tagged graphs.
Result<std::vector<LayerTimes>> TimeLayers(const std::vector<const Graph*>& graphs, size_t layers,
                                           const std::vector<Datum>& inputs, const Backend& backend,
                                           int threads, const std::stop_token& stop);

}  // namespace infer
