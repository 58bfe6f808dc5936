#pragma once
/// Latency against load: an open loop at shares of the capacity, and where it saturates.
#include "tools/infer_bench/load/drive.h"

namespace infer::bench {

struct CurvePoint {
  double share = 0;  ///< of the capacity
  double rate = 0;   ///< queries per second that were asked for
  LoadResult result;
  bool saturated = false;
};

/// The engine fell behind: one query in twenty (and more than it has lanes) was unanswered when the
/// last had come.
bool Saturated(const LoadResult& r, int lanes);

/// 10 % to 110 % in steps of 10.
std::vector<double> CurveShares();

/// Answers per second of a closed loop with as many queries in flight as the engine has lanes.
Result<LoadResult> MeasureCapacity(Engine& engine, double seconds, const LoadOptions& base);

/// One point: `base` in an open loop at this share of `capacity_per_s`.
Result<CurvePoint> MeasurePoint(Engine& engine, double share, double capacity_per_s,
                                const LoadOptions& base);

}  // namespace infer::bench
