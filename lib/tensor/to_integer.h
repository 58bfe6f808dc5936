#pragma once
/// Conversion of real numbers to integers that is defined for every number.
#include <cmath>
#include <limits>

namespace infer {

/// Truncates toward zero, saturates, NaN becomes 0.
template <typename T>
T ToInteger(double v) {
  if (std::isnan(v)) return 0;
  const double lo = static_cast<double>(std::numeric_limits<T>::min());
  const double hi = static_cast<double>(std::numeric_limits<T>::max());
  if (v <= lo) return std::numeric_limits<T>::min();
  if (v >= hi) return std::numeric_limits<T>::max();
  return static_cast<T>(v);
}

}  // namespace infer
