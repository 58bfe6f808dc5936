#pragma once
/// What one layer alone does to the result: golden with only this layer as the candidate has it.
/// Beside the accumulated error of Compare, which carries on what all layers before did.
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "quant/accuracy/compare.h"
#include "quant/accuracy/layer_map.h"

namespace infer {

struct IsolatedLayer {
  size_t layer = 0;       ///< of the map
  std::string name;       ///< golden's value that the layer makes
  std::string golden_op;  ///< "Conv+Relu"
  std::string candidate_op;
  TensorMetrics local;  ///< at the layer's own value, from golden's inputs
  /// Worst output of the model with only this layer from the candidate, see OutputSqnr. Empty where
  /// the time was up before.
  std::optional<double> output_sqnr_db;
};

struct IsolateOptions {
  int64_t samples = 4;  ///< the first so many runs
  int level = 0;        ///< both sides run at it
  int threads = 0;
  double budget_s = 60;  ///< of the runs of the whole model, which go from the worst local on
  Progress progress = nullptr;
  std::stop_token stop = {};
  OutputSource golden = nullptr;  ///< KeptGolden of these samples, where it is there already
};

/// Golden's outputs, from one run of each sample.
Result<OutputSource> KeptGolden(const LayerMap& map, const Backend& backend, const Samples& samples,
                                const IsolateOptions& options);

/// The worst of the outputs: SQNR of floats, 10 log10(elements / unequal) of others; -inf where NaN
/// or infinity stand at other places.
double OutputSqnr(const AccuracyReport& report);

/// Every changed layer, guiltiest first: by the output where it is known, then by the local SQNR.
/// Samples run twice per layer, and 48 layers at a time are held.
Result<std::vector<IsolatedLayer>> IsolateLayers(const LayerMap& map, const Backend& backend,
                                                 const Samples& samples,
                                                 const IsolateOptions& options = {});

}  // namespace infer
