#pragma once
/// Reports of `infer-opt prune`, as tables and JSON.
#include "quant/prune/prune.h"
#include "tools/common/report.h"

namespace infer {

Json ToJson(const PruneReport& r, const PruneOptions& options);
/// A line of totals, a table of the layers, the layers that stayed dense by their reason.
std::string SummaryText(const PruneReport& r, const PruneOptions& options);

}  // namespace infer
