#pragma once
/// A load for hours, seen in windows: does latency or memory creep?
#include <functional>
#include <vector>

#include "tools/infer_bench/load/drift.h"
#include "tools/infer_bench/load/drive.h"

namespace infer::bench {

struct SoakOptions {
  LoadOptions load;
  double window_s = 60;
  /// Of the median latency, as a share of its level per hour, and of the resident set per hour.
  double max_latency_drift = 0.05;
  double max_memory_drift_bytes = 4e6;
  std::function<int64_t()> resident;  ///< bytes now
  /// Sees each window when it is over.
  std::function<void(size_t windows)> observe = {};
};

struct SoakWindow {
  double at_s = 0, seconds = 0;  ///< since the start
  int64_t answered = 0;          ///< in it; 0: the figures of latency are none
  double median_ms = 0, p99_ms = 0, max_ms = 0;
  int64_t resident_bytes = 0;  ///< at its end
};

struct SoakResult {
  LoadResult load;
  std::vector<SoakWindow> windows;
  int64_t skipped = 0;  ///< the first tenth, in which caches and pools fill: of no series
  Drift median_ms, p99_ms, resident_bytes;  ///< p99 is told, and no part of the verdict
  DriftVerdict verdict = DriftVerdict::kInconclusive;
};

Result<SoakResult> Soak(Engine& engine, const SoakOptions& options);

}  // namespace infer::bench
