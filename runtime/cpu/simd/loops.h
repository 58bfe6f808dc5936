#pragma once
/// Inner loops over contiguous f32 (and u8/s8), compiled once per instruction set (loops.inc) and
/// chosen at run time. No allocation, no threads here.
///
/// Errors of the polynomials against exact values, tested in tests/runtime/cpu/loops_test.cc:
/// exp relative 2e-7, tanh and sigmoid absolute 3e-7 (tanh below 0.6 relative 3e-7), erf absolute
/// 4e-7; tan, the hyperbolic functions and all inverse ones relative 4e-7, with the signed zeros,
/// subnormal numbers, infinities and NaN of the library's.
#include <cstdint>

namespace infer::simd {

enum class Unary : uint8_t {
  kAbs,
  kNeg,
  kRelu,
  kLeakyRelu,  ///< a: slope
  kClip,       ///< [a, b]
  kExp,
  kSigmoid,
  kTanh,
  kErf,
  kGelu,  ///< 0.5 x (1 + erf(x / sqrt 2))
  kGeluTanh,
  kSwish,  ///< x sigmoid(a x)
  kHardSwish,
  kHardSigmoid,  ///< max(0, min(1, a x + b))
  kElu,          ///< a: alpha
  kSqrt,
  kReciprocal,
  kFloor,
  kCeil,
  kSquare,
  kSoftplus,
  kMish,
  kSign,
  kLog,
  kSin,  ///< |x| <= kMaxAngle; else use the library's
  kCos,
  kTan,
  kRound,
  kSoftsign,
  kThresholdedRelu,  ///< a: alpha
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kSelu,    ///< a: alpha, b: gamma
  kShrink,  ///< a: lambd, b: bias
  kCount
};
enum class Binary : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kSquaredDifference,
  kPRelu,
  kCount
};

/// DequantizeLinear of a and b, one operation, Relu where wanted, QuantizeLinear:
/// y = saturate(round_half_even(f(sa (a - za), sb (b - zb)) / sy) + zy). A signed number is read
/// and written as unsigned with its sign bit flipped (flip = 0x80), and zero points count from
/// there.
struct Int8Params {
  uint8_t flip_a = 0, flip_b = 0, flip_y = 0;
  int32_t zero_a = 0, zero_b = 0, zero_y = 0;
  float scale_a = 1, scale_b = 1, scale_y = 1;
  bool relu = false;
};

/// Beyond this the reduction of angles loses bits.
constexpr float kMaxAngle = 8192;
constexpr bool TakesAngles(Unary f) {
  return f == Unary::kSin || f == Unary::kCos || f == Unary::kTan;
}

/// The factors with which f32 can normalize a row: beyond, the differences of up to 2^40 numbers
/// from their mean may overflow, or the factor times a scale is no normal number. Such rows are
/// computed in double. The factor, 1 / deviation, is neither negative nor, for numbers, NaN.
constexpr float kLeastFactor = 1e-32f, kMostFactor = 1e32f;

/// Columns of a panel of a packed matrix.
constexpr int64_t kPanel = 32;

struct Loops {
  const char* isa;
  using UnaryFn = void (*)(const float* x, float* y, int64_t n, float a, float b);
  using BinaryFn = void (*)(const float* a, const float* b, float* y, int64_t n);
  UnaryFn unary[static_cast<int>(Unary::kCount)];
  BinaryFn binary[static_cast<int>(Binary::kCount)];         ///< y[i] = a[i] op b[i]
  BinaryFn binary_scalar[static_cast<int>(Binary::kCount)];  ///< y[i] = a[i] op b[0]
  BinaryFn scalar_binary[static_cast<int>(Binary::kCount)];  ///< y[i] = a[0] op b[i]
  /// Softmax (or its logarithm) of `rows` rows of n, one behind the other; y may be x.
  void (*softmax)(const float* x, float* y, int64_t n, int64_t rows, bool log);
  /// (x - mean) / sqrt(var + epsilon) * scale + bias of one row; scale and bias may be nullptr.
  void (*layer_norm)(const float* x, const float* scale, const float* bias, float* y, int64_t n,
                     float epsilon);
  /// Of n > 0 elements, in double.
  void (*moments)(const float* x, int64_t n, double* mean, double* variance);
  /// y[i] = (x[i] - less) * by + plus; y may be x.
  void (*scaled)(const float* x, float less, float by, float plus, float* y, int64_t n);
  /// The same in double throughout; `by` and `plus` of each element, nullptr: 1 and 0.
  void (*scaled_wide)(const float* x, double less, double factor, const float* by,
                      const float* plus, float* y, int64_t n);
  /// c[r, j] += sum_k a[r, k] b[k, j] for all columns of `panels` panels; b lies as
  /// [panel][k][kPanel]. Every element is summed along k in order, whatever is computed with it.
  void (*multiply_panels)(const float* a, int64_t lda, int64_t rows, const float* b, int64_t k,
                          int64_t panels, float* c, int64_t ldc);
  /// One step of an LSTM cell: gates i, o, f, c before their activations, n of each; peepholes
  /// (i, o, f) may be nullptr.
  void (*lstm_cell)(const float* gates, const float* peepholes, float* c, float* h, int64_t n);
  /// h = (1 - sigmoid(z)) tanh(x) + sigmoid(z) h
  void (*gru_cell)(const float* z, const float* x, float* h, int64_t n);
  /// Sums in double.
  double (*sum)(const float* x, int64_t n);
  double (*sum_squares)(const float* x, int64_t n);
  float (*max)(const float* x, int64_t n);  ///< Pre: n > 0. NaN where one is
  float (*min)(const float* x, int64_t n);  ///< the same
  /// saturate(round_half_even(x / scale) + zero_point)
  void (*quantize_u8)(const float* x, uint8_t* y, int64_t n, float scale, int32_t zero_point);
  void (*quantize_s8)(const float* x, int8_t* y, int64_t n, float scale, int32_t zero_point);
  void (*dequantize_u8)(const uint8_t* x, float* y, int64_t n, float scale, int32_t zero_point);
  void (*dequantize_s8)(const int8_t* x, float* y, int64_t n, float scale, int32_t zero_point);
  using Int8Fn = void (*)(const uint8_t* a, const uint8_t* b, uint8_t* y, int64_t n,
                          const Int8Params& p);
  /// With the scales divided beforehand: elements within some 1e-4 of a half may round otherwise.
  Int8Fn add_8, mul_8;
  /// Every step rounded to f32 as the operators do, the quotient from the scale's reciprocal and
  /// its remainder (Markstein, 1990), which is exact but where numbers leave the range of f32.
  Int8Fn reciprocal_add_8, reciprocal_mul_8;
  /// Every step rounded to f32 as the operators do.
  Int8Fn exact_add_8, exact_mul_8;
  /// QLinearAdd and QLinearMul: scales divided first, and the zero point added before rounding.
  Int8Fn linear_add_8, linear_mul_8;
  /// Softmax (or its logarithm) along the rows of x and y [n, columns], which lie `stride` floats
  /// apart. Pre: x and y are not the same memory.
  void (*softmax_columns)(const float* x, float* y, int64_t n, int64_t stride, int64_t columns,
                          bool log);
  /// Of `columns` columns of n rows, which lie `stride` floats apart: sums, in double and down the
  /// rows, and extrema, NaN where one is.
  using ColumnSumsFn = void (*)(const float* x, double* to, int64_t n, int64_t stride,
                                int64_t columns);
  ColumnSumsFn column_sums, column_squares;
  using ColumnBestFn = void (*)(const float* x, float* to, int64_t n, int64_t stride,
                                int64_t columns);
  ColumnBestFn column_max, column_min;
  /// to[i], first <= i < end: the place of the largest (by ArgIndex) of the n elements of list i of
  /// x [.., n, inner], n < 2^31; NaN is above everything. For few or one list side by side.
  using ArgListsFn = void (*)(const float* x, int64_t* to, int64_t n, int64_t inner, int64_t first,
                              int64_t end);
  ArgListsFn arg_lists[4];
  /// to[c]: the same of x[k * stride + c].
  using ArgColumnsFn = void (*)(const float* x, int64_t* to, int64_t n, int64_t stride,
                                int64_t columns);
  ArgColumnsFn arg_columns[4];
};

/// Of Loops::arg_lists and arg_columns: the largest or the least element, the first or the last of
/// equal ones.
constexpr int ArgIndex(bool least, bool last) { return 2 * (least ? 1 : 0) + (last ? 1 : 0); }

/// The best table that this machine and INFER_MAX_ISA allow.
const Loops& TheLoops();

}  // namespace infer::simd
