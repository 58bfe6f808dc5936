#pragma once
/// What reference kernels of quantized operators share: zero points taken away exactly, scales that
/// broadcast, results rounded back. Real value = scale (q - zero point).
#include "lib/ops/op_def.h"

namespace infer {

/// Codes of 8 bits.
inline constexpr TypeSet kQuantized8{DType::kI8, DType::kU8};

/// Extents of a scale or zero point seen against an operand of `rank` axes: one value is {}, a
/// vector runs along `axis`, anything else broadcasts as NumPy does.
Dims QuantParamDims(const Dims& param, int rank, int axis);

/// x - zero_point as f32, exact for 8-bit types. `zero_point` may be nullptr. InvalidModel when it
/// does not broadcast to x.
Result<Tensor> Centered(const Tensor& x, const Tensor* zero_point, int axis);

/// Reads a tensor as if broadcast to other extents, by flat index.
class BroadcastReader {
 public:
  /// `dims`: how `t` is to be seen (QuantParamDims). InvalidModel when they do not broadcast.
  static Result<BroadcastReader> Make(const Tensor& t, Dims dims, const Dims& target);
  double At(int64_t flat) const;

 private:
  Tensor t_;
  Dims target_, strides_;
};

/// Round half to even, add the zero point, saturate to the type of `out` (fp8: round and saturate).
void StoreQuantized(Tensor& out, int64_t i, float value, double zero_point);

/// What DynamicQuantizeLinear chooses: [min(0, min x), max(0, max x)] mapped to 0...255.
struct DynamicRange {
  float scale = 1;  ///< 1 for a range of one point
  float zero_point = 0;
  /// `v` as 8 bits and back.
  float Rounded(float v) const;
};
DynamicRange DynamicRangeOf(double low, double high);

/// Runs another operator's reference kernel: `family` is where its OpDef stands.
Result<Tensor> RunReference(std::span<const OpDef> family, std::string_view op,
                            const AttrMap& attrs, const std::vector<Tensor>& inputs);

}  // namespace infer
