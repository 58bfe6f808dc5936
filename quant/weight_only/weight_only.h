#pragma once
/// Weight-only quantization in one call: prepare -> plan -> round -> write. What
/// `infer-opt quantize --mode weight-only` runs. Activations stay f32, and no data is needed.
#include <stop_token>

#include "quant/algorithm/weight_grid.h"
#include "quant/calibrate/samples.h"
#include "quant/scheme/report.h"
#include "quant/weight_only/write.h"

namespace infer {

struct WeightOnlyOptions {
  WeightScheme scheme;
  /// MatMulNBits: 0 keeps activations in f32, 4 lets kernels quantize them to 8 bits per block.
  int accuracy_level = 0;
  /// How the plan's products and tables are rounded; made once the graph is prepared and planned,
  /// so that a rounder may run the graph over data first, and may change constants in ways that
  /// leave its results as they are. Default: NearestRounder().
  std::function<Result<BlockRounder>(Graph& prepared, const WeightPlan& plan)> rounder;
  /// How weights in bodies of control flow are rounded, through which no data run alone. Default:
  /// NearestRounder().
  BlockRounder body_rounder = nullptr;
  /// The codes of layers (convolutions, recurrent operators), whose scales stay, come from
  /// `rounder`, too, by requests with RoundRequest::scales; else they are rounded to nearest.
  bool round_layers = false;
  /// Changes the prepared weights before they are planned and rounded; nullptr: nothing does.
  WeightChange change = nullptr;
  /// Simplify and fuse first; off for a graph that is prepared already.
  bool prepare = true;
  Progress progress = nullptr;
  std::stop_token stop = {};
};

/// Rewrites `g`. On failure `g` is unchanged. InvalidArgument: a pattern that matches nothing, a
/// graph that has quantized weights already, options that no format holds. Unsupported: nothing in
/// the graph can be quantized; the message says why for each candidate. Cancelled.
Result<QuantizeReport> QuantizeWeightOnly(Graph& g, const WeightOnlyOptions& options = {});

}  // namespace infer
