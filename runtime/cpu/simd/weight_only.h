#pragma once
/// Rows of activations by a panel of 16 columns of weights of 4 or 8 bits, scaled per block of k.
/// Compiled once per instruction set (weight_only.inc) and chosen at run time. No allocation, no
/// threads here.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace infer::simd {

/// Columns of a panel.
constexpr int64_t kWeightColumns = 16;

/// A panel is one stream of blocks: scales f32[16], zero points f32[16] where there are some,
/// codes. Of 4 bits: for 8 k, 16 columns of 4 bytes: byte t holds k = t (low) and k = 4 + t (high).
/// Of 8 bits: for 4 k, 16 columns of 4 bytes.
struct WeightPanel {
  const std::byte* data = nullptr;  ///< aligned to 64 bytes
  int64_t blocks = 0;
  int64_t block = 0;   ///< k of a block; a multiple of 16, at most 256
  int bits = 4;        ///< 4 or 8
  bool zeros = false;  ///< else they are 8 or 128

  int64_t block_bytes() const { return (zeros ? 128 : 64) + block * bits / 8 * kWeightColumns; }
  int64_t bytes() const { return blocks * block_bytes(); }
  int64_t depth() const { return blocks * block; }  ///< k with padding
};

/// y[r][j] = sum over blocks of scale[j] * sum_k a[r][k] (code[k][j] - zero[j]), then + start[j],
/// then + y[r][j] where `add`.
struct WeightRows {
  WeightPanel panel;
  /// Of floats: rows of depth() numbers, `stride` apart. sums[r * blocks + b] is block b's sum.
  const float* a = nullptr;
  int64_t stride = 0;
  const float* sums = nullptr;
  /// Of integers: rows of depth() numbers; per row and block a scale and -8 (or -128) times the
  /// sum.
  const int8_t* q = nullptr;
  const float* scales = nullptr;
  const int32_t* starts = nullptr;
  float* y = nullptr;  ///< 16 columns
  int64_t y_stride = 0;
  const float* start = nullptr;  ///< [16]; nullptr: zeros
  bool add = false;
};

/// One row cut into blocks, each scaled by max|a| / 127 and rounded half to even. A block with NaN
/// or infinity gets the scale NaN.
struct QuantizeRow {
  const float* a = nullptr;  ///< [blocks * block]
  int64_t blocks = 0, block = 0;
  int bits = 4;
  int8_t* q = nullptr;
  float* scales = nullptr;
  float* sums = nullptr;  ///< of q
  int32_t* starts = nullptr;
};

struct WeightOnly {
  const char* isa;
  int max_rows;  ///< what one call takes is 1, 2, 4, ... up to this
  /// Largest of those numbers that is at most `rows`.
  int (*rows_at_once)(int64_t rows);
  /// In f32, summed along k within a block.
  void (*floats)(int rows, const WeightRows& call);
  /// In integers within a block; the same bits on every instruction set.
  void (*integers)(int rows, const WeightRows& call);
  void (*quantize)(const QuantizeRow& call);
  void (*sum_blocks)(const float* a, int64_t blocks, int64_t block, float* sums);
  /// How `floats` wants its rows for weights of 4 bits: each number divided by the power of 2 that
  /// its weight is multiplied with where it lies, which changes no bit of a product above 2^-102.
  /// nullptr: as they are.
  void (*spread)(const float* a, int64_t depth, float* to);
};

/// The best table that this machine and INFER_MAX_ISA allow.
const WeightOnly& TheWeightOnly();
/// All that they allow, the best one last.

}  // namespace infer::simd
