#pragma once
/// What `infer-opt fuse` did, as text and as JSON.
#include "passes/pass/pipeline.h"
#include "passes/rewrite/near_miss.h"
#include "tools/common/report.h"

namespace infer {

/// The largest sum of activations alive at once, nodes run in the graph's order, subgraphs left
/// out; nullopt where a shape is not known.
std::optional<int64_t> PeakActivationBytes(const Graph& g);

/// `before`, `after`: the graphs with static extents, for costs.
Json ToJson(const OptimizeReport& r, const Graph& before, const Graph& after);
Json ToJson(const std::vector<NearMiss>& misses);

/// Rules, totals, and what was refused or, where asked for, did not match.
std::string SummaryText(const OptimizeReport& r);
/// The time of each pass.
std::string PassText(const OptimizeReport& r);
std::string ToText(const std::vector<NearMiss>& misses);

}  // namespace infer
