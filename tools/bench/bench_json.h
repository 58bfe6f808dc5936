#pragma once
/// Samples, distributions and environments as every report of infer-bench spells them. The $defs of
/// the same names in docs/schemas are what they are held to.
#include "tools/bench/core_probe.h"
#include "tools/bench/distribution.h"
#include "tools/bench/environment.h"
#include "tools/bench/machine_watch.h"
#include "tools/bench/sampling.h"
#include "tools/common/report.h"

namespace infer::bench {

/// {"runs", "median", "median_ci95", "mean", "min", "max", "stddev", "mad", "cv", "outliers",
/// "outlier_indices", "p50", ..., "p99.9", "upper_99": {"p50": ...}, "withheld": {"p99.9": why}}.
/// A percentile that is withheld is null, and so is its upper limit where there is none.
Json ToJson(const Distribution& d);
/// {"at_ms": [...], "ms": [...], "cpu_ms": [...]}.
Json ToJson(const RunSamples& s);
Json ToJson(const WarmUp& w);
Json ToJson(const Environment& e);
Json ToJson(const Watched& w);
Json ToJson(const std::vector<CorePair>& pairs);

}  // namespace infer::bench
