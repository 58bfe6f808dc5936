#pragma once
/// Shared by the benches of kernels: the clock, and quantiles of what it told.
#include <algorithm>
#include <chrono>
#include <vector>

namespace infer {

inline double NowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The quantile `share`, 0 to 1. Pre: `v` is not empty.
inline double At(std::vector<double> v, double share) {
  std::sort(v.begin(), v.end());
  return v[static_cast<size_t>(share * static_cast<double>(v.size() - 1))];
}

}  // namespace infer
