#pragma once
/// Loops over samples that lie between the points of an image, compiled once per instruction set
/// (samples.inc) and chosen at run time. No allocation, no threads here.
///
/// A *tap* is a point that a sample reads and what it counts. Tables of taps are
/// [tap][kSampleBlock]; a tap of weight 0 stands for a point outside, whatever its place holds.
#include <cstdint>

namespace infer::simd {

/// Samples at once, at most.
constexpr int64_t kSampleBlock = 64;

/// An axis of `size` points, 0 < size < 2^24, as GridSample reads it.
struct SampledAxis {
  enum class Padding : uint8_t { kZeros, kBorder, kReflection };
  int32_t size = 1;
  int points = 2;  ///< taps: 2 linear, 4 cubic
  bool align_corners = false;
  Padding padding = Padding::kZeros;
};

/// Samples of an image of `height` x `width` points, linear in both directions: sample i lies at
/// (top[i] + row + down[i], left[i] + column + along[i]).
struct MovedSamples {
  int32_t height = 0, width = 0;  ///< of fewer than 2^31 points
  const int32_t* top = nullptr;
  const int32_t* left = nullptr;
  int32_t row = 0, column = 0;
  const float* down = nullptr;
  const float* along = nullptr;
};

struct Samples {
  const char* isa;
  /// Taps along an axis of the normalised coordinates g[i * step], i < n <= kSampleBlock; the same
  /// places and, but for rounding, weights as GridSampler's (lib/ops/move/grid_sampler.h).
  void (*axis_taps)(const float* g, int64_t step, int64_t n, const SampledAxis& axis, int32_t* at,
                    float* weight);
  /// The four taps of n <= kSampleBlock samples; all weights are 0 where a move is no number.
  void (*moved_taps)(const MovedSamples& samples, int64_t n, int32_t* at, float* weight);
  /// y[i] = sum_t weight[t][i] * x[at[t][i]] in order of t, for 1, 2, 4, 8 or 16 taps.
  void (*read)(const float* x, const int32_t* at, const float* weight, int taps, int64_t n,
               float* y);
  /// The same of four taps and of `channels` numbers side by side, the points `pixel` floats apart:
  /// y[i * y_step + c] = factor[i] * sum_t weight[t][i] * x[at[t][i] * pixel + c]; `factor` may be
  /// nullptr. `zeros` holds `channels` of them.
  void (*read_channels)(const float* x, int64_t pixel, const int32_t* at, const float* weight,
                        const float* factor, int64_t n, int64_t channels, const float* zeros,
                        float* y, int64_t y_step);
};

/// Chosen like TheLoops().
const Samples& TheSamples();

}  // namespace infer::simd
