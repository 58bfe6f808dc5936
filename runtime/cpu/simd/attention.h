#pragma once
/// Inner loops of attention, compiled once per instruction set (attention.inc) and chosen at run
/// time. A *panel* is [depth][2 * lanes]: two vectors of columns. No allocation, no threads here.
///
/// The exponential's relative error is at most 2e-7 down to e^-87, below which it is 0
/// (tests/runtime/cpu/attention_loops_test.cc).
#include <cstdint>

namespace infer::simd {

/// d[r][j] = factors[r] * sum_k a[r * a_stride + k] * panel[k][j], summed along k in order.
struct RowsByPanel {
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* panel = nullptr;
  int64_t depth = 0;
  float* d = nullptr;
  int64_t d_stride = 0;
  const float* factors = nullptr;  ///< nullptr: ones
  bool narrow = false;             ///< the first vector of columns only
};

/// One row of scores s on its way to exp(s' - max s'), s' = mask(s * scale).
struct ScoreRow {
  float* scores = nullptr;  ///< room for n rounded up to vectors; what is behind n becomes 0
  int64_t n = 0;
  float scale = 1;
  const float* add = nullptr;     ///< [n], added
  const uint8_t* keep = nullptr;  ///< [n]: where it is 0, `hidden` stands instead
  float hidden = 0;
  bool invert = false;           ///< where `keep` is not 0
  bool zero_where_none = false;  ///< a row of -inf gives zeros, else NaN
};

struct AttentionLoops {
  const char* isa;
  int lanes;
  int rows;  ///< of one call of `multiply`
  /// Pre: 1 <= rows <= this->rows.
  void (*multiply)(int rows, const RowsByPanel& call);
  /// The sum of the exponentials; 0 where all are.
  double (*soften)(const ScoreRow& row);
  /// to[k][j] = from[j * stride + k], j < rows, k < depth; columns from `rows` on become 0.
  void (*transpose_panel)(const float* from, int64_t stride, int64_t rows, int64_t depth,
                          float* to);
};

/// nullptr where the machine, or INFER_MAX_ISA, allows none of the instruction sets.
const AttentionLoops* TheAttentionLoops();

}  // namespace infer::simd
