#pragma once
/// Exact sums of products of 8-bit numbers where the machine has no instruction for them (VNNI):
/// operands less their zero point in 16 bits, weights widened as they are read, two products and
/// their sum at a time (pmaddwd). Nothing saturates: |q - z| <= 255, so a pair stays below 2^17.
/// What follows the sum works on the registers. Compiled once per instruction set (pairs.inc) with
/// no f32 operation contracted, so that every one gives the same bits. No allocation, no threads
/// here.
#include <cstdint>

namespace infer::simd {

/// From an exact sum to the result, in f32: (sum + bias) * scale, the steps, perhaps the sum with
/// another 8-bit tensor, perhaps the quantization.
struct AfterSum {
  struct Step {
    enum class Kind : uint8_t { kLeaky, kClip, kAbs, kScale } kind = Kind::kScale;
    float a = 0, b = 0;  ///< slope; bounds; factor
  };
  enum class Type : uint8_t { kF32, kU8, kI8, kI32 };  ///< kI32: the sum alone

  const float* bias = nullptr;   ///< as many as columns of all panels
  const float* scale = nullptr;  ///< likewise
  const float* plus = nullptr;   ///< likewise, added to what is scaled; nullptr: nothing
  Step steps[6] = {};
  int step_count = 0;
  /// Quantized here, then added to `other`, as the operators do it one after the other.
  bool adds = false, relu = false;       ///< relu: after the addition
  float between_lo = 0, between_hi = 0;  ///< quanta less the zero point
  float between_scale = 1, other_scale = 1, y_scale = 1;
  bool other_signed = false;
  int32_t other_zero = 0;
  Type type = Type::kF32;
  float lo = 0, hi = 0;  ///< of a quantized result: quanta less the zero point
  int32_t zero = 0;
};

/// y[r][j] = after(sum over taps and k of a[rows[r] + taps[t] + k] * b[t][k][j]).
struct PairsCall {
  const int16_t* a = nullptr;
  const int32_t* rows = nullptr;  ///< where each row starts, in numbers
  const int32_t* taps = nullptr;
  int64_t tap_count = 0;
  int64_t pairs = 0;          ///< of k, in each tap
  const int8_t* b = nullptr;  ///< [tap][pair][2 * lanes][2]
  const AfterSum* after = nullptr;
  int64_t column = 0;           ///< of all panels, the first here
  int64_t columns = 0;          ///< of these 2 * lanes, that exist
  int64_t stride = 0;           ///< from one row of y to the next, in elements
  const void* other = nullptr;  ///< as y, of 8 bits
  void* y = nullptr;
};

/// The same for one channel each: y[r][j] = after(sum over taps of a[rows[r] + taps[t] + j] *
/// b[t][j]), b in 16 bits with a zero behind each, [tap][lanes][2], of `lanes` columns.
struct ChannelsCall {
  const int16_t* a = nullptr;
  const int32_t* rows = nullptr;
  const int32_t* taps = nullptr;
  int64_t tap_count = 0;
  const int16_t* b = nullptr;
  const AfterSum* after = nullptr;
  int64_t column = 0, columns = 0, stride = 0;
  const void* other = nullptr;
  void* y = nullptr;
};

struct Pairs {
  const char* isa;
  int lanes;
  int max_rows;  ///< of one call
  /// Pre: 1 <= rows <= max_rows. Reads a number past an odd k; b is zero there.
  void (*multiply)(int rows, const PairsCall& call);
  /// Reads `lanes` numbers of a.
  void (*multiply_channels)(int rows, const ChannelsCall& call);
  /// y[i] = x[i] - zero
  void (*widen_u8)(const uint8_t* x, int16_t* y, int64_t n, int32_t zero);
  void (*widen_s8)(const int8_t* x, int16_t* y, int64_t n, int32_t zero);
};

/// The best that this machine and INFER_MAX_ISA allow.
const Pairs& ThePairs();

}  // namespace infer::simd
