#pragma once
/// Rows of correlated data and their moments, for the tests of data-driven rounding.
#include <cstdint>
#include <vector>

#include "lib/support/random.h"
#include "quant/algorithm/hessian.h"
#include "quant/weight_only/block.h"

namespace infer {

/// `count` rows of `depth` numbers that mix `factors` common causes with noise, a few inputs large.
/// `seed` draws the rows; the mix is the same for every seed.
inline std::vector<float> CorrelatedRows(int64_t count, int64_t depth, int64_t factors,
                                         uint64_t seed) {
  Random shape(7), random(seed);
  std::vector<double> mix(static_cast<size_t>(factors * depth));
  for (double& m : mix) m = shape.Normal();
  std::vector<float> rows(static_cast<size_t>(count * depth));
  for (int64_t r = 0; r < count; ++r) {
    std::vector<double> cause(static_cast<size_t>(factors));
    for (double& c : cause) c = random.Normal();
    for (int64_t k = 0; k < depth; ++k) {
      double x = 0.3 * random.Normal();
      for (int64_t f = 0; f < factors; ++f)
        x += cause[static_cast<size_t>(f)] * mix[static_cast<size_t>(f * depth + k)];
      rows[static_cast<size_t>(r * depth + k)] = static_cast<float>(k % 9 == 0 ? 5 * x : x);
    }
  }
  return rows;
}

/// X^T X, summed the plain way.
inline Hessian MomentsOf(const std::vector<float>& rows, int64_t depth) {
  Hessian h{depth, 1, static_cast<int64_t>(rows.size()) / depth, {}};
  std::vector<double> sum(static_cast<size_t>(depth * depth));
  for (int64_t r = 0; r < h.rows; ++r)
    for (int64_t i = 0; i < depth; ++i)
      for (int64_t j = 0; j < depth; ++j)
        sum[static_cast<size_t>(i * depth + j)] +=
            double{rows[static_cast<size_t>(r * depth + i)]} *
            rows[static_cast<size_t>(r * depth + j)];
  h.sum.assign(sum.begin(), sum.end());
  return h;
}

inline std::vector<float> NormalWeights(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> w(static_cast<size_t>(count));
  for (float& x : w) x = static_cast<float>(0.1 * random.Normal());
  return w;
}

}  // namespace infer
