#pragma once
/// Skinny products: few results per point, or few terms per sum, where products in blocks of 16
/// columns multiply padding. Compiled once per instruction set (skinny.inc) and chosen at run time.
/// No allocation, no threads here.
#include <cstdint>

namespace infer::simd {

/// y[o][p] = start[o] + along[p] + (add ? y[o][p] : 0) + sum_t w[t * w_tap + o * w_out] * x[x_at[t]
/// + p], the points p side by side in vectors, summed along t in order. Of any alignment; y is no
/// part of x.
struct PointsCall {
  const float* x = nullptr;
  const int64_t* x_at = nullptr;
  int64_t taps = 0;
  const float* w = nullptr;
  int64_t w_tap = 1, w_out = 1;
  int64_t outputs = 0;
  float* y = nullptr;
  int64_t y_stride = 0;  ///< floats from one output to the next
  int64_t points = 0;
  const float* start = nullptr;  ///< nullptr: zeros
  const float* along = nullptr;  ///< nullptr: zeros
  bool add = false;
};

/// y[p][o] = start[o] + (add ? y[p][o] : 0) + sum_t sum_c x[p * x_step + x_at[t] + c] * w(o, t, c),
/// the terms c < depth side by side in vectors of LanesOf(depth): the order of the sums depends on
/// nothing but `depth`, `taps` and the instruction set.
struct DotsCall {
  const float* x = nullptr;
  int64_t x_step = 0;
  const int64_t* x_at = nullptr;
  const int64_t* w_at = nullptr;  ///< floats from those of an output to those of tap t
  int64_t taps = 0, depth = 0;
  const float* w = nullptr;  ///< packed: PackDots()
  int64_t w_out = 0;         ///< floats from one output to the next
  int64_t outputs = 0;
  float* y = nullptr;
  int64_t y_step = 0;  ///< floats from one point to the next
  int64_t points = 0;
  const float* start = nullptr;  ///< nullptr: zeros
  bool add = false;
};

struct Skinny {
  const char* isa;
  int lanes;         ///< of a vector
  int64_t together;  ///< outputs that `points` computes in one sweep over x
  void (*points)(const PointsCall& call);
  void (*dots)(const DotsCall& call);

  /// Of the vectors that `dots` takes for sums of `depth` terms.
  int64_t LanesOf(int64_t depth) const;
  /// Floats of one output and tap.
  int64_t PaddedDepth(int64_t depth) const;
  /// from[c * step], c < depth, as `dots` reads it: the last vector holds the last LanesOf(depth)
  /// terms, zeros for those that the vectors before it hold.
  void PackDots(const float* from, int64_t step, int64_t depth, float* to) const;
};

/// Chosen like TheLoops().
const Skinny& TheSkinny();

}  // namespace infer::simd
