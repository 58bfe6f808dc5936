#pragma once
/// The inner loop of depthwise convolutions on channels last, compiled once per instruction set
/// (depthwise.inc) and chosen at run time. No allocation, no threads here.
#include <cstdint>

namespace infer::simd {

/// y[p][c] = bias[c] + (add ? y[p][c] : 0) + sum_t x[p][x_at[t] + c] * w[w_at[t] + c], summed along
/// t in order, for `pixels` pixels p that all have the same taps. Of any alignment.
struct DepthwiseCall {
  const float* x = nullptr;
  int64_t x_step = 0;  ///< floats from the operand of one pixel to that of the next
  float* y = nullptr;
  int64_t y_step = 0;
  int64_t pixels = 0, channels = 0;
  const float* w = nullptr;
  const int64_t* x_at = nullptr;
  const int64_t* w_at = nullptr;
  int64_t taps = 0;
  const float* bias = nullptr;  ///< nullptr: zeros
  bool add = false;
};

/// Pixels of one vector of channels, one after the other: y[p] = start + sum over the rows r of the
/// window and its columns k of rows[r][p * step + k * tap_step] * w[r][k], in that order.
struct PixelRowCall {
  const float* const* rows = nullptr;  ///< where pixel 0 reads, of each row of the window
  /// The same of a second row of results, which lies behind the first one; nullptr: there is none.
  /// Short rows are computed by two. Pre: pixels <= Depthwise::short_row.
  const float* const* below = nullptr;
  int64_t step = 0, tap_step = 0;  ///< floats, multiples of a vector
  const float* w = nullptr;        ///< [row][column][lanes]
  int64_t window_rows = 0, window_columns = 0;
  float* y = nullptr;  ///< [pixels][lanes]
  int64_t pixels = 0;
  const float* start = nullptr;  ///< a vector; nullptr: what y holds, from pixel to pixel
};

/// Pixels of some channels, at most a vector of them: channel c of pixel p lies at
/// x[p * pixel + c * channel], where one of the two steps is 1.
struct PixelsAt {
  int64_t pixel = 1, channel = 1, channels = 0;
};

struct Depthwise {
  const char* isa;
  int64_t lanes;      ///< of a vector of a row of pixels
  int64_t short_row;  ///< pixels of a row that leaves registers for a second one
  void (*run)(const DepthwiseCall& call);
  /// to[c * times + i] = x[c], c < count, i < times.
  void (*repeat)(const float* x, int64_t count, int64_t times, float* to);
  void (*row)(const PixelRowCall& call);
  /// To and from [pixels][lanes]; lanes that no channel has become 0. Reads up to `end`.
  void (*gather)(const float* from, const float* end, const PixelsAt& at, int64_t pixels,
                 float* to);
  void (*scatter)(const float* from, const PixelsAt& at, int64_t pixels, float* to);
};

/// Chosen like TheLoops().
const Depthwise& TheDepthwise();

}  // namespace infer::simd
