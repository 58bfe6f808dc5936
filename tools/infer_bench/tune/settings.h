#pragma once
/// The settings that a search tries: the grid of `infer-bench run`, with lanes for each cell.
#include "tools/common/variants_file.h"
#include "tools/infer_bench/run/grid.h"
#include "tools/infer_bench/tune/search.h"

namespace infer::bench {

/// 1, 2, 4, ... up to `cores`, and `cores`.
std::vector<std::string> ThreadsUpTo(int cores);

/// Of the model in the grid's precisions, then of each variant as it is.
/// `lanes`: numbers; 0 (and none given) is as many as have a core for each of their threads.
/// `engine`: the grid's batches are rows that a run of the engine may have.
/// InvalidArgument: a value that is no number of what it stands for.
Result<std::vector<TuneSetting>> SettingsOf(const GridOptions& grid,
                                            const std::vector<std::string>& lanes, int cores,
                                            const std::vector<VariantFile>& variants = {},
                                            bool engine = false);

}  // namespace infer::bench
