#pragma once
/// The products of bytes under our integer convolutions and matrix products: u8 rows by s8 panels,
/// exact sums of 32 bits, and what makes a result of a sum while it is in registers; by all
/// weights, or by those quads that are not zero. No allocation, no threads here.
#include <cstddef>
#include <cstdint>

namespace infer::simd {

/// Columns of a panel of b, and how much of k stands together in it.
inline constexpr int kByteColumns = 32, kByteQuad = 4;
/// Rows of one call.
inline constexpr int kByteTileRows = 14;

/// What follows a sum s, in f32: v = (s + bias) * scale; if `clips`, v = clamp(v, clip_lo, clip_hi)
/// * clip_scale; then by form
///   kFloat: v + plus, if any;
///   kInts: s alone, of 32 bits;
///   kBytes: round(clamp(v, lo, hi)) + zero, a byte;
///   kResidual: u = round(clamp(v, lo, hi)) * sum_scale + (d - other_zero) * other_scale, then
///              round(clamp(u, sum_lo, sum_hi)) + zero.
struct ByteFinish {
  enum class Form : uint8_t { kFloat, kBytes, kResidual, kInts } form = Form::kFloat;
  bool clips = false;
  /// 128 where d is signed: d ^ flip is unsigned, and so are the zero points.
  uint8_t flip = 0;
  float clip_lo = 0, clip_hi = 0, clip_scale = 1;
  float lo = 0, hi = 0;
  float sum_scale = 1, other_scale = 1, sum_lo = 0, sum_hi = 0;
  int32_t zero = 0, other_zero = 0;

  /// Of one number of d.
  int64_t result_bytes() const { return form == Form::kFloat || form == Form::kInts ? 4 : 1; }
};

/// The results of one call, and what makes them of sums.
struct ByteResults {
  std::byte* d = nullptr;          ///< bytes, or numbers of 32 bits
  int64_t d_stride = 0;            ///< bytes from one row to the next
  const int32_t* start = nullptr;  ///< [columns], as bias and scale
  const float* bias = nullptr;
  const float* scale = nullptr;
  const float* plus = nullptr;  ///< [columns], of f32 results; nullptr: nothing
  const ByteFinish* finish = nullptr;
};

/// d[r][j] = finish(start[j] + sum_k a[r][k] * b[k / 4][j][k % 4]) for 32 columns.
struct ByteCall : ByteResults {
  const uint8_t* a = nullptr;
  int64_t a_stride = 0;       ///< bytes from one row to the next
  const int8_t* b = nullptr;  ///< [quads][32][4]
  int64_t quads = 0;          ///< of k
  /// What the next products read: so many lines of 64 bytes per 4 quads go to L2 meanwhile.
  const std::byte* ahead = nullptr;
  int ahead_lines = 0;
};

/// Pre: 1 <= rows <= kByteTileRows.
using MultiplyBytesFn = void (*)(int rows, const ByteCall& call);
/// nullptr where the machine, or INFER_MAX_ISA, has no VNNI of 512 bits.
MultiplyBytesFn TheMultiplyBytes();

void MultiplyBytesVnni(int rows, const ByteCall& call);

/// Columns of a panel of weights most of which are zero, and rows of a packed tile.
inline constexpr int kSparseByteColumns = 16, kSparseByteRows = 28;
/// Bytes of one quad of k of all rows of a tile.
inline constexpr int kSparseByteStep = kSparseByteRows * kByteQuad;

/// d[r][j] = finish(start[j] + sum_i sum_q x[at[i] step + 4 r + q] * w[i][j][q]) for 16 columns:
/// quads of k whose weights are zero are not listed.
struct SparseByteCall : ByteResults {
  const uint8_t* x = nullptr;      ///< [quads of k][rows][4]
  int64_t step = kSparseByteStep;  ///< bytes from a quad of x to the next
  const uint32_t* at = nullptr;    ///< [count]: quads of k
  const int8_t* w = nullptr;       ///< [count][16][4], at a multiple of 64 bytes
  int64_t count = 0;
};

struct SparseBytes {
  /// Pre: 1 <= rows <= kSparseByteRows. Of more than one row, those up to the next multiple of four
  /// are read in x, too.
  void (*multiply)(int rows, const SparseByteCall& call);
  /// to[k / 4][r][k % 4] = rows[r][k] ^ flip for k < depth, and any number up to a whole quad.
  /// Of `count` rows; those behind hold anything.
  void (*turn)(const uint8_t* const (&rows)[kSparseByteRows], int count, int64_t depth,
               uint8_t flip, uint8_t* to);
};
/// nullptr where the machine, or INFER_MAX_ISA, has no VNNI of 512 bits.
const SparseBytes* TheSparseBytes();

extern const SparseBytes kSparseBytesVnni;

}  // namespace infer::simd
