#pragma once
/// --golden-cache: a golden model's outputs, kept in a folder from one comparison to the next.
///
/// FOLDER/KEY/INPUTS-K.pb is output K of one run: KEY stands for the graph with its weights, the
/// device, the level, the processor's instruction set and our version; INPUTS is the SHA-256 of
/// what the run was given. So any subset of the data, in any order, finds what is there, and what
/// was interrupted goes on where it ended.
#include "quant/accuracy/compare.h"
#include "tools/common/model_options.h"

namespace infer {

struct CacheCounts {
  int64_t hits = 0, misses = 0;
};

/// Outputs of `g` at level 0, from `folder` where they are kept there, else by running it, which
/// compiles it at the first miss. What is damaged counts as missing and is written anew. Sequences
/// are never kept. `g` and `counts` must outlive the result.
OutputSource CachedGolden(const std::string& folder, const Graph& g, const DeviceOptions& device,
                          const std::stop_token& stop, CacheCounts& counts);

}  // namespace infer
