#pragma once
/// Inner loops of attention on 8-bit operands: unsigned rows by a signed panel, which is
/// [depth / 4][32 columns][4]. AVX-512 with VNNI only. No allocation, no threads here.
#include <cstdint>

namespace infer::simd {

constexpr int64_t kByteWidth = 32;  ///< columns of a panel
constexpr int kByteRows = 14;       ///< of one product

/// d[r][j] = sum_k a[r * a_stride + k] * panel[k][j], k < 4 * quads.
struct ByteProduct {
  const uint8_t* a = nullptr;
  int64_t a_stride = 0;  ///< bytes
  const int32_t* panel = nullptr;
  int64_t quads = 0;
  int32_t* d = nullptr;
  int64_t d_stride = 0;
  bool narrow = false;  ///< the first 16 columns only
};

struct ByteAttentionLoops {
  void (*multiply)(int rows, const ByteProduct& call);
  /// In place, to f32: s[j] + columns[j] + row. Up to n rounded up to 16.
  void (*widen)(int32_t* s, const int32_t* columns, int32_t row, int64_t n);
  /// p[j] = min(255, round_half_even(e[j] * factor)), e >= 0, up to n rounded up to 16; returns the
  /// sum. Where e is not a number p is 0.
  int32_t (*round)(const float* e, int64_t n, float factor, uint8_t* p);
  /// to[j] = the bytes j of four rows, flipped by `flip` (0 or 0x80), as one number each; n
  /// columns, the rest up to kByteWidth become 0.
  void (*interleave)(const uint8_t* const* rows, int64_t n, uint8_t flip, int32_t* to);
  /// y[j] = (d[j] - zero) * factor, j < n.
  void (*finish)(const int32_t* d, int32_t zero, float factor, int64_t n, float* y);
};

/// nullptr where the machine, or INFER_MAX_ISA, has no VNNI.
const ByteAttentionLoops* TheByteAttentionLoops();

}  // namespace infer::simd
