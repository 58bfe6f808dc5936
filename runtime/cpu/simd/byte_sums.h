#pragma once
/// Sums of 8-bit codes, and the bounds between which their mean lies when each code is first made a
/// real number in f32. Compiled once per instruction set (byte_sums.inc); all give the same bits.
/// A signed code is read as unsigned with its sign bit flipped (flip = 0x80).
#include <cstdint>

namespace infer::simd {

/// Bytes whose sum fits 32 bits.
constexpr int64_t kByteSumLimit = int64_t{1} << 24;

struct ByteSums {
  /// sums[i] += sum over r < rows of x[r * stride + i] ^ flip; i < columns.
  void (*columns)(const uint8_t* x, int64_t rows, int64_t stride, int64_t columns, uint8_t flip,
                  uint32_t* sums);
  /// The sum over i < n of x[i] ^ flip.
  uint32_t (*row)(const uint8_t* x, int64_t n, uint8_t flip);
  /// (sums[i] - offset) * factor, less and plus `error`, in double and then rounded to f32.
  void (*bounds)(const uint32_t* sums, int64_t n, int64_t offset, double factor, double error,
                 float* low, float* high);
};

/// Chosen like TheLoops().
const ByteSums& TheByteSums();

}  // namespace infer::simd
