#pragma once
/// Weight-only rounding by calibration data: hands the second moments of a layer's operand to a
/// rounder of code_rounder.h and to the scale searches, and keeps what errs least on rows that none
/// of them has seen. Round to nearest stays where nothing errs less.
#include <optional>
#include <string_view>

#include "quant/algorithm/code_rounder.h"
#include "quant/algorithm/hessian.h"
#include "quant/algorithm/scale_search.h"
#include "quant/weight_only/weight_only.h"

namespace infer {

/// Candidates; the one that errs least is kept. All begin with clipped scales.
struct DataMethod {
  const CodeRounder* rounder = nullptr;  ///< chooses codes; nullptr: none does
  bool nearest = false;                  ///< the nearest codes are a candidate
  bool scales_inputs = false;            ///< inputs are scaled first (AWQ)
};
/// Of a rounder's name; "awq": nearest codes behind scaled inputs; "auto": these, and the first
/// rounder's. nullopt for others.
std::optional<DataMethod> DataMethodNamed(std::string_view name);
std::vector<std::string> DataMethodNames();

/// Rounds rows of weights by the moments of their operand. `looked_up`: the rows are results by
/// themselves too (tied embeddings), so that their own relative error counts as much as that of the
/// outputs. Errors are relative: sqrt(tr(D H D^T) / tr(W H W^T)). Pre: weights finite, w.rows a
/// multiple of the groups.
RoundedWeights RoundByData(const BlockWeights& w, const BlockGrid& grid, const HessianPair& h,
                           DataMethod method, bool looked_up = false);

/// The same for codes whose scales, one per row, are given: GPTQ, or nearest where that gains
/// little. Grid: 8 bits, symmetric, a scale per row.
RoundedWeights RoundCodesByData(const BlockWeights& w, std::span<const float> scales,
                                const HessianPair& h);

/// Layers that sum over more inputs, whose factorisation is slow, are rounded to nearest.
inline constexpr int64_t kMaxLayerDepth = 2304;

/// A rounder for the products of `graph`, which is copied. Moments are summed when weights are
/// first asked for, with those of as many later layers as the budget holds: ask in the graph's
/// order. Weights that only look up, or whose operand has no moments, are rounded to nearest, with
/// the reason in `note`. Requests with scales are for layers (LayerSourceOf), which
/// RoundCodesByData rounds whatever the method. `backend` must outlive the rounder.
BlockRounder MakeDataRounder(const Graph& graph, const Samples& samples, const Backend& backend,
                             DataMethod method, const HessianOptions& options = {});

/// What --method does that reads data: for awq and auto scales the inputs of the plan's products
/// first (FoldInputScales), which changes constants of `g`. A layer whose inputs were scaled says
/// so in its method and note, and its nearest_error is that of the weights as they were.
/// InvalidArgument: no samples. Errors as SumHessians().
Result<BlockRounder> RounderFromData(Graph& g, const WeightPlan& plan, const Samples& samples,
                                     const Backend& backend, DataMethod method,
                                     const HessianOptions& options = {});

/// Sets what rounds (WeightOnlyOptions::rounder, round_layers) by a name of RounderNames() or
/// DataMethodNames(). `backend` must outlive the options. InvalidArgument: another name, or a
/// method that reads data without samples.
Status UseMethod(const std::string& method, const Samples& samples, const Backend& backend,
                 const HessianOptions& data, WeightOnlyOptions& options);

}  // namespace infer
