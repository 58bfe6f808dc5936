#pragma once
/// Weight-only rounding by calibration data: hands the second moments of a layer's operand to GPTQ
/// and to the clip search, and keeps what errs least on rows that neither has seen.
#include <memory>

#include "quant/algorithm/hessian.h"
#include "quant/weight_only/block.h"

namespace infer {

enum class DataMethod : uint8_t {
  kGptq,  ///< GPTQ with refinement, from clipped scales
  kAwq,   ///< clipped scales, round to nearest (AWQ without its input scales)
  kAuto,  ///< whichever of the two errs less
};

/// Rounds rows of weights by the moments of their operand; round to nearest where nothing errs less
/// on the held-out rows. Errors are relative: sqrt(tr(D H D^T) / tr(W H W^T)). Pre: weights finite,
/// w.rows a multiple of the groups.
RoundedWeights RoundByData(const BlockWeights& w, const BlockGrid& grid, const HessianPair& h,
                           DataMethod method);

/// A rounder for the products of `graph`, which is copied. Moments are summed when weights are
/// first asked for, with those of as many later layers as the budget holds: ask in the graph's
/// order. Weights that only look up, or whose operand has no moments, are rounded to nearest, with
/// the reason in `note`. `samples` and `backend` must outlive the rounder.
BlockRounder MakeDataRounder(const Graph& graph, const Samples& samples, const Backend& backend,
                             DataMethod method, const HessianOptions& options = {});

}  // namespace infer
