#pragma once
/// What a search found: as JSON (docs/schemas/infer-bench-tune.schema.json) and as a table.
#include "tools/common/report.h"
#include "tools/infer_bench/tune/search.h"

namespace infer::bench {

/// {"verdict", "reason", "seconds", "measurements", "interrupted", "candidates", "chosen",
/// "best_guess"}: the last two by name.
Json ToJson(const TuneResult& r, const TuneOptions& o);
Json ToJson(const Slo& slo);
/// Every candidate, what was measured of it and what became of it; below, the verdict.
std::string TuneTable(const TuneResult& r, const TuneOptions& o);

}  // namespace infer::bench
