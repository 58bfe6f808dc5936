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

/// The same over two vectors of columns: b [blocks * lanes][2 * lanes], d and start accordingly, d
/// and its rows of any alignment.
struct WideCall {
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;
  int64_t blocks = 0;
  float* d = nullptr;
  int64_t d_stride = 0;  ///< floats from one row to the next
  const float* start = nullptr;
  bool add = false;
  /// What the next products read: so many lines of 64 bytes per block of k go to L2 meanwhile.
  const void* ahead = nullptr;
  int ahead_lines = 0;  ///< 0, 4 or `lanes`
  float lo = -__builtin_inff(), hi = __builtin_inff();
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
  void (*winograd_input)(int m, const WinogradInput& tile);
  void (*winograd_output)(int m, const WinogradOutput& tile);
};

/// nullptr where the machine, or INFER_MAX_ISA, allows none of the instruction sets.
const Panels* ThePanels();

#ifdef INFER_X86
const Panels& Avx2Panels();
const Panels& Avx512Panels();
#endif

}  // namespace infer::simd
