#pragma once
/// Order statistics and intervals of measured samples. Shared by everything that times.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace infer {

struct Summary {
  int64_t count = 0;
  double min = 0, max = 0, mean = 0, median = 0;
  double stddev = 0;  ///< sample standard deviation (n - 1)
  double mad = 0;     ///< median absolute deviation, unscaled
  double cv = 0;      ///< stddev / mean
  /// 95 % interval of the median, bootstrap percentile method (Efron & Tibshirani 1993, ch. 13),
  /// 1000 resamples with a fixed seed.
  double median_low = 0, median_high = 0;
  int64_t outliers = 0;  ///< beyond median +- 3 * 1.4826 * MAD; flagged, never dropped
};
/// Empty input gives zeros.
Summary Summarize(std::span<const double> samples);

/// Quantile by linear interpolation between order statistics (Hyndman & Fan 1996, type 7).
/// Pre: samples not empty, 0 <= q <= 1.
double Quantile(std::span<const double> samples, double q);
/// The middle one, of an even number the upper of the two: a value that is there, infinite ones
/// too. Pre: not empty, no NaN.
double UpperMedian(std::vector<double> values);
/// Whether `count` samples support quantile q: at least ten lie beyond it.
bool QuantileSupported(int64_t count, double q);

}  // namespace infer
