#pragma once
/// What samples say: location, spread, percentiles, and an interval that owns up to their number.
#include <cstdint>
#include <span>
#include <vector>

#include "tools/bench/percentiles.h"

namespace infer::bench {

struct Distribution {
  int64_t count = 0;
  double min = 0, max = 0, mean = 0, median = 0;
  double mad = 0;     ///< median absolute deviation, unscaled
  double stddev = 0;  ///< sample standard deviation (n - 1)
  double cv = 0;      ///< stddev / mean
  /// 95 % interval of the median by the percentile bootstrap, of infinitely many resamples:
  /// the median of a resample is at most the k-th smallest sample with the probability that
  /// Binomial(n, k / n) exceeds n / 2 (Efron & Tibshirani 1993, ch. 13.3).
  double median_low = 0, median_high = 0;
  std::vector<Percentile> percentiles;
  /// Indices of samples beyond median +- 3 * 1.4826 * MAD: flagged, never dropped.
  std::vector<int64_t> outliers;
};
/// Empty input gives zeros, and percentiles without values.
Distribution Describe(std::span<const double> samples,
                      std::span<const double> quantiles = kReportedQuantiles);

/// Type 7 of Hyndman & Fan (1996), as Quantile of lib/support. Pre: ascending, not empty.
double QuantileOfSorted(std::span<const double> sorted, double q);

}  // namespace infer::bench
