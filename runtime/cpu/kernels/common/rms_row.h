#pragma once
/// One row of RMSNormalization, for its kernel and for chains.
#include <cmath>

#include "runtime/cpu/simd/loops.h"

namespace infer {

/// x / sqrt(mean square + epsilon) * scale; scale may be nullptr, y may be x.
inline void RmsRow(const simd::Loops& loops, const float* x, const float* scale, float* y,
                   int64_t n, float epsilon) {
  const double mean = loops.sum_squares(x, n) / static_cast<double>(n);
  const double factor = 1 / std::sqrt(mean + static_cast<double>(epsilon));
  const auto f = static_cast<float>(factor);
  if (!(f > simd::kLeastFactor && f < simd::kMostFactor)) [[unlikely]]
    return loops.scaled_wide(x, 0, factor, scale, nullptr, y, n);
  loops.binary_scalar[static_cast<int>(simd::Binary::kMul)](x, &f, y, n);
  if (scale) loops.binary[static_cast<int>(simd::Binary::kMul)](y, scale, y, n);
}

}  // namespace infer
