#pragma once
/// The product under our convolutions and matrix products, and the transforms of Winograd's
/// convolution, over *blocked* operands: [blocks][rows][lanes], where a block is as many channels
/// as a vector has lanes. Compiled once per instruction set (panels.inc) and chosen at run time.
/// No allocation, no threads here.
#include <cstdint>

namespace infer::simd {

/// d[r][j] = clamp(start[j] + (add ? d[r][j] : 0) + sum_k a[k / L][r][k % L] * b[k][j], lo, hi),
/// summed along k in order, so that an element has the same bits whatever is computed with it.
struct PanelCall {
  const float* a = nullptr;      ///< row 0 of block 0
  int64_t a_stride = 0;          ///< floats from one block to the next
  const float* b = nullptr;      ///< [blocks * lanes][lanes]
  int64_t blocks = 0;            ///< of k
  float* d = nullptr;            ///< [rows][lanes]
  const float* start = nullptr;  ///< [lanes]; nullptr: zeros
  bool add = false;
  bool cold = false;                                    ///< b comes from far: prefetch it
  float lo = -__builtin_inff(), hi = __builtin_inff();  ///< NaN passes
};

/// A product over two vectors of columns, b [blocks * lanes][2 * lanes], summed along k in order,
/// and where it goes: d[r][j] = clamp(start[j] + (add ? d[r][j] : 0) + factor * product, lo, hi).
/// d, start and the rows of d may have any alignment.
struct WideTarget {
  float* d = nullptr;
  const float* start = nullptr;  ///< [2 * lanes]; nullptr: zeros
  bool add = false;
  float factor = 1;  ///< 1 or -1
  float lo = -__builtin_inff(), hi = __builtin_inff();
};
struct WideCall {
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;
  int64_t blocks = 0;
  /// Where set, the product reads b + with, or b - with, instead of b, and leaves that sum, of the
  /// same extents, at `made` for the rows that follow. Nothing is fetched ahead then.
  const float* with = nullptr;
  bool minus = false;
  float* made = nullptr;
  int64_t d_stride = 0;  ///< floats from one row of a target to the next
  WideTarget to[2];
  int targets = 1;
  /// What the next products read: so many lines of 64 bytes per block of k go to L2 meanwhile.
  const void* ahead = nullptr;
  int ahead_lines = 0;  ///< 0, 4, 8 or `lanes`
};

/// The seven sums of quarters of a that Strassen's products read, of one run of rows: sum i is
/// [blocks][rows][lanes] at to + i * stride. Row r of the upper quarters is at upper + r * pitch,
/// that of the lower ones at lower + r * pitch for r < lower_rows, zeros beyond; the right quarters
/// follow the left ones by blocks * lanes, zeros from column `depth` on.
struct StrassenRows {
  const float* upper = nullptr;
  const float* lower = nullptr;
  int64_t pitch = 0, depth = 0, blocks = 0;
  int rows = 0, lower_rows = 0;
  float* to = nullptr;
  int64_t stride = 0;
};

/// One tile of Winograd's F(m x m, 3 x 3), m = 2 or 4: (m + 2)^2 points of one block of channels.
struct WinogradInput {
  const float* src = nullptr;  ///< [height][width][lanes], by the next stride
  int64_t pixel = 0;           ///< floats from one pixel of a row to the next
  int64_t height = 0, width = 0;
  int64_t top = 0, left = 0;  ///< of the tile; may lie outside, where zeros are read
  float* points = nullptr;    ///< point p at points + p * stride
  int64_t stride = 0;
};
struct WinogradOutput {
  const float* points = nullptr;
  int64_t stride = 0;
  float* dst = nullptr;  ///< as src; what lies outside is not written
  int64_t pixel = 0;
  int64_t height = 0, width = 0;
  int64_t top = 0, left = 0;
  const float* bias = nullptr;  ///< [lanes]; nullptr: zeros
  bool add = false;
  float lo = -__builtin_inff(), hi = __builtin_inff();
};

struct Panels {
  const char* isa;
  int lanes;
  int max_rows;  ///< of one call of `multiply`
  /// Pre: 1 <= rows <= max_rows; d is aligned as a vector.
  void (*multiply)(int rows, const PanelCall& call);
  int wide_rows;  ///< of one call of `multiply_wide`
  void (*multiply_wide)(int rows, const WideCall& call);
  void (*strassen_rows)(const StrassenRows& rows);
  void (*winograd_input)(int m, const WinogradInput& tile);
  void (*winograd_output)(int m, const WinogradOutput& tile);
};

/// nullptr where the machine, or INFER_MAX_ISA, allows none of the instruction sets.
const Panels* ThePanels();

}  // namespace infer::simd
