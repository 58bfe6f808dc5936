#pragma once
/// Affine quantization of numbers: real = scale * (q - zero_point). No graph and no statistics
/// here. Formulas: Jacob et al. 2018 (arXiv 1712.05877) section 2.1; ONNX QuantizeLinear.
#include <span>
#include <vector>

#include "lib/tensor/tensor.h"

namespace infer {

/// A closed interval of real numbers. Default: nothing seen ([0, 0]).
struct Interval {
  double lo = 0;
  double hi = 0;
  bool operator==(const Interval&) const = default;
  Interval Union(const Interval& o) const { return {lo < o.lo ? lo : o.lo, hi > o.hi ? hi : o.hi}; }
};

/// Which integers may be used: a type, and whether zero_point is the type's middle.
struct QuantGrid {
  DType dtype = DType::kU8;
  bool symmetric = false;
  /// One bit less (s8: -63...63), for hardware whose 8-bit multiply-add saturates at 16 bits.
  bool reduce_range = false;
  int64_t qmin() const;  ///< symmetric signed grids leave out the lowest code: -127 for s8
  int64_t qmax() const;
};

/// real = scale[c] * (q - zero_point[c]): one entry per tensor, or one per index of `axis`.
struct QuantParams {
  DType dtype = DType::kU8;
  int axis = -1;                    ///< -1: per tensor
  std::vector<float> scale;         ///< positive, finite and normal
  std::vector<int32_t> zero_point;  ///< within dtype
  bool operator==(const QuantParams&) const = default;
};

/// Weights whose codes are chosen already.
struct RoundedCodes {
  Tensor codes;
  QuantParams params;
};

/// One scale and zero point whose grid covers `range` and has 0 as an exact code. A range without
/// extent (all zero) gets scale 1. Pre: range finite, lo <= hi.
QuantParams ChooseParams(const Interval& range, const QuantGrid& grid);

/// Symmetric parameters per index of `axis` of weights `w` (f32): scale[c] = max|w[c]| / qmax; of
/// an unsigned type around its middle: max|w[c]| / 127, zero point 128 for u8. `min_scale` (empty
/// or one per channel) bounds them from below. A channel of zeros gets the bound, or the largest
/// scale of the other channels.
QuantParams ChooseWeightParams(const Tensor& w, int axis, const QuantGrid& grid,
                               std::span<const double> min_scale = {});

/// saturate(round_half_even(x / scale) + zero_point), as ONNX QuantizeLinear; NaN becomes the zero
/// point. Pre: x is f32, params.axis within rank.
Tensor QuantizeTensor(const Tensor& x, const QuantParams& params);
/// (q - zero_point) * scale in f32.
Tensor DequantizeTensor(const Tensor& q, const QuantParams& params);
/// One number through QuantizeTensor.
int64_t QuantizeValue(double x, float scale, int64_t zero_point, DType dtype);

/// Indices of `axis` at which weights `w` are not all zero and their codes stand for nothing else.
/// 0 for axis -1.
int64_t LostChannels(const Tensor& w, const Tensor& codes, int axis, int32_t zero_point);

/// Smallest and largest finite element; [0, 0] when there is none.
Interval FiniteRange(std::span<const float> values);

}  // namespace infer
