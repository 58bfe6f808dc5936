#pragma once
/// Student's t: an interval for a mean of few values that are about normal.
#include <span>

namespace infer {

struct Estimate {
  double value = 0;
  double low = 0, high = 0;  ///< interval of the confidence asked for
};

/// P(T <= t) for `df` >= 1 degrees of freedom (Abramowitz & Stegun 26.7.3 and 26.7.4).
double StudentCdf(double t, int df);
/// The t > 0 with P(|T| <= t) = confidence. Pre: 0 < confidence < 1, df >= 1.
double StudentQuantile(double confidence, int df);
/// Mean of `values` and its interval; infinite below two values. Pre: not empty.
Estimate MeanInterval(std::span<const double> values, double confidence);

}  // namespace infer
