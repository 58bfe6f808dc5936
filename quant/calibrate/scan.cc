#include "quant/calibrate/scan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace infer {
namespace {

/// Independent lanes, so that the compiler needs no leave to reorder.
constexpr size_t kLanes = 32;

Scan ScanSlowly(std::span<const float> values) {
  Scan s{FiniteRange(values)};
  for (const float v : values) s.finite += std::isfinite(v) ? 1 : 0;
  s.non_finite = static_cast<int64_t>(values.size()) - s.finite;
  return s;
}

}  // namespace

Scan ScanValues(std::span<const float> values) {
  if (values.size() < kLanes) return ScanSlowly(values);
  std::array<float, kLanes> lo, hi, odd{};
  std::copy_n(values.begin(), kLanes, lo.begin());
  hi = lo;
  const auto take = [&](const float* x) {
    for (size_t k = 0; k < kLanes; ++k) {
      lo[k] = x[k] < lo[k] ? x[k] : lo[k];
      hi[k] = x[k] > hi[k] ? x[k] : hi[k];
      odd[k] += x[k] * 0.0f;  // NaN from the first NaN or infinity on
    }
  };
  for (size_t at = 0; at + kLanes <= values.size(); at += kLanes) take(values.data() + at);
  take(values.data() + values.size() - kLanes);
  if (std::any_of(odd.begin(), odd.end(), [](float x) { return std::isnan(x); }))
    return ScanSlowly(values);
  return {{static_cast<double>(*std::min_element(lo.begin(), lo.end())),
           static_cast<double>(*std::max_element(hi.begin(), hi.end()))},
          static_cast<int64_t>(values.size()),
          0};
}

}  // namespace infer
