#pragma once
/// Means of windows of 8-bit codes.
#include "runtime/plan_ir/kernel.h"

namespace infer {

/// Between codes and real numbers, one scale for the tensor.
struct ByteScale {
  DType dtype = DType::kU8;
  float scale = 1;
  int32_t zero = 0;
};

/// AveragePool (operand x of the step) between a dequantization and a quantization: real numbers in
/// f32, their sum in double, which is exact for some thousand of them whatever the order, the mean
/// in f32, its quantization.
struct ByteAverage {
  ByteScale from, to;
  int x = -1;
  /// The zero point is added in f32 before rounding (QLinearAveragePool), not behind it.
  bool rounds_last = false;
  bool channels_last = false;  ///< the operand is [N, spatial.., C] by its extents
};

/// `node` has the attributes of the window. Images lie with their channels last.
Result<Prepared> PrepareByteAverage(const ByteAverage& average, const Node& node,
                                    std::span<const Operand> in, const Operand& out);

/// The smallest code.
inline float LowestCode(DType t) { return t == DType::kI8 ? -128.0f : 0.0f; }

}  // namespace infer
