#pragma once
/// Integer products by weights whose differences to their zero point take 9 bits, on kernels for 8:
/// w - zero = code + offset, so that sum (x - z)(w - zero) = sum (x - z) code + offset sum (x - z).
/// ONNX Runtime's dynamic quantizer makes such weights by default (u8, any zero point).
#include <memory>
#include <vector>

#include "runtime/plan_ir/groups/quant_group.h"

namespace infer {

/// Terms of a sum of codes of 8 bits by weights of 9 that is certain to fit 32 bits.
inline constexpr int64_t kMostWideProducts = 33'000;

struct OffsetWeights {
  Tensor codes;                  ///< i8, as the weights lie
  std::vector<int32_t> offsets;  ///< by output channel

  /// Both added: the weights less their zero point, as they lie, in 16 bits. Pre: each output
  /// channel's lie side by side.
  std::vector<int16_t> Added() const;
};
/// Pre: `w` has constant u8 or i8 weights of `columns` output channels, and one zero point or as
/// many.
OffsetWeights OffsetWeightsOf(const QuantInput& w, int64_t columns);

/// Turns the sums of codes of one row, y [columns] i32, into those of weights, and these into f32
/// where `real`: sum scale + plus, each step rounded. x_sum: of the row's operands less their zero
/// point; `plus` may be nullptr.
void AddOffsetsToRow(int32_t x_sum, const int32_t* offsets, const float* scale, const float* plus,
                     int64_t columns, bool real, std::byte* y);

/// Turns sums of codes into sums of weights, and these into real numbers where they are wanted,
/// each step rounded, in place.
struct AddOffsets {
  std::shared_ptr<const std::vector<int32_t>> offsets;  ///< nullptr: nothing is to be done
  int64_t rows = 0, row_bytes = 0, depth = 0, columns = 0;
  bool real = false;  ///< f32 results: sum scale + plus

  /// x [rows, row_bytes], zeros behind `depth`; zero: their zero point; y [rows, columns] i32, then
  /// f32 where `real`. `plus` may be nullptr.
  void Run(const uint8_t* x, int32_t zero, const float* scale, const float* plus,
           std::byte* y) const;
};

}  // namespace infer
