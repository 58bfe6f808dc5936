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

struct Depthwise {
  const char* isa;
  void (*run)(const DepthwiseCall& call);
  /// to[c * times + i] = x[c], c < count, i < times.
  void (*repeat)(const float* x, int64_t count, int64_t times, float* to);
};

/// Chosen like TheLoops().
const Depthwise& TheDepthwise();

}  // namespace infer::simd
