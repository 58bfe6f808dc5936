#pragma once
/// Products of numbers that are quantized as they come by constant 8-bit weights: of
/// DynamicQuantizeLSTM, whose X has one range, and whose states have one in each step. Sums are
/// exact.
#include <vector>

#include "lib/ops/quantized/quant_reference.h"
#include "runtime/cpu/kernels/int8/byte_gemm.h"
#include "runtime/cpu/kernels/int8/offset_weights.h"

namespace infer {

/// x[0 .. n) as DynamicQuantizeLinear takes them.
DynamicRange RangeOf(const float* x, int64_t n);

/// Weights [depth, columns] of one direction.
class ByteProduct {
 public:
  /// `codes` [D, depth, columns] of u8 or s8; `scale` and `zero` [D] or [D, columns].
  static ByteProduct Of(const Tensor& codes, const Tensor& scale, const Tensor& zero,
                        int64_t direction);
  /// Whether the machine has our product of bytes, and sums of `depth` products fit 32 bits.
  static bool IsThere(int64_t depth) {
    return simd::TheMultiplyBytes() != nullptr && depth <= kMostWideProducts;
  }

  /// Bytes of a row of codes, and floats of what a run needs besides.
  static int64_t RowBytes(int64_t depth) { return (depth + 3) / 4 * 4; }
  static int64_t ScratchFloats(int64_t padded) { return 2 * padded; }
  /// x [rows, depth] as codes [rows, RowBytes].
  static void Quantize(const float* x, int64_t rows, int64_t depth, const DynamicRange& range,
                       uint8_t* codes);

  /// y [rows, columns in whole panels] = plus + numbers of the codes by the weights; `plus` is a
  /// row or nullptr. It may be y where there is one row and the weights are symmetric.
  /// `again`: the weights have been read just now.
  void Run(const uint8_t* codes, int64_t rows, const DynamicRange& range, const float* plus,
           float* y, float* scratch, bool again) const;
  bool is_symmetric() const { return zeros_.empty(); }
  int64_t weight_bytes() const { return static_cast<int64_t>(weights_.panels->size()); }

 private:
  void Finish(const uint8_t* codes, int64_t rows, int64_t zero, const float* plus,
              const float* scales, float* y) const;

  int64_t depth_ = 0;
  ByteWeights weights_;         ///< start: minus the sum of each column
  std::vector<int32_t> zeros_;  ///< of the columns; empty: all are 0
};

}  // namespace infer
