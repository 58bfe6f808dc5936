#pragma once
/// The cost of splitting a layer, before any is split: the database of levels that the solver
/// chooses from.
#include <optional>

#include "quant/prune/rank_space.h"
#include "quant/search/solver.h"

namespace infer {

/// By level of a ranked layer; empty: not measured, since the work was done before.
struct LevelCosts {
  std::vector<double> errors;  ///< squared, relative to the layer's outputs, on held-out rows
  std::vector<double> costs;   ///< noise at the model's outputs, not rising with the rank
};

/// The level of each ranked layer; nullopt: it stays one product.
using RankChoice = std::vector<std::optional<size_t>>;

enum class RankLimit : uint8_t { kBytes, kMicroseconds };

/// By ranked layer. Layers are split alone, by the weights that they have, at three of their
/// levels, and the model is run on samples that they were not fitted to; between these levels costs
/// follow the layer's own errors. What is in the store is not measured again: a layer is one entry.
/// Layers come in the order of what they can save at most (of `of`), until max_seconds are spent.
Result<std::vector<LevelCosts>> MeasureLevels(const Graph& original, const RankSpace& space,
                                              const Samples& samples, const Backend& backend,
                                              const LowRankOptions& options, RankLimit of,
                                              LowRankReport& report);

/// The bytes or time that a choice leaves of all ranked layers, dense ones included.
double LeftOf(std::span<const RankedLayer> layers, const RankChoice& choice, RankLimit of);
/// The choice of least cost that leaves at most `limit`; nullopt: none does.
std::optional<RankChoice> ChooseRanks(std::span<const RankedLayer> layers,
                                      std::span<const LevelCosts> costs, RankLimit of,
                                      double limit);

}  // namespace infer
