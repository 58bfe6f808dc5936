#pragma once
/// Ranges from a histogram by what quantizing to them costs. Numbers only, no data is read again.
#include <vector>

#include "quant/calibrate/histogram.h"

namespace infer {

/// The bins of a histogram as numbers with weights. Bin [0, w) stands for 0 where nothing is below
/// zero: after ReLU nearly all of it is zero, which every grid has exactly.
class BinnedValues {
 public:
  explicit BinnedValues(const Histogram& h);
  /// Mean of (x - DequantizeLinear(QuantizeLinear(x)))^2 with `p`: rounding and clipping. Bins too
  /// wide to tell codes apart count scale^2 / 12, the mean of evenly spread numbers.
  double SquaredError(const QuantParams& p) const;
  /// KL divergence of the numbers from what `p` leaves of them: those beyond the grid are counted
  /// at its edge, those of one code spread evenly over the bins that had any. Empty bins have no
  /// part in either; nor has the bin of zero, which is exact.
  double Divergence(const QuantParams& p) const;
  Interval seen() const { return seen_; }

 private:
  struct Bin {
    double x, count;
  };
  std::vector<Bin> bins_;  // not empty ones only, ascending
  double width_ = 0, count_ = 0;
  Interval seen_;
};

/// The range within seen() with the least SquaredError for `grid`: both ends together first, then
/// each by itself (one magnitude for a symmetric grid). Never worse than seen(). As "MSE" in Nagel
/// et al. 2021 (arXiv 2106.08295), section 3.1, with a grid search over the real error.
Interval LeastSquaresRange(const BinnedValues& values, const QuantGrid& grid);

/// The best of [0, t] for t within a twentieth of range.hi. Pre: range.hi > 0.
Interval FromZero(const BinnedValues& values, const Interval& range, const QuantGrid& grid);

/// The least Divergence over magnitudes t, for [max(lo, -t), min(hi, t)] (Migacz, "8-bit inference
/// with TensorRT", GTC 2017). Unlike there the codes are those of `grid`, on one side or both, so a
/// range without negative numbers has all of them for itself.
Interval LeastDivergenceRange(const BinnedValues& values, const QuantGrid& grid);

}  // namespace infer
