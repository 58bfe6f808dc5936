#pragma once
/// The results of a convolution or transposed convolution on channels last, by which taps of the
/// window they read: what lies outside of the operand is not multiplied, and points of several rows
/// stand in one tile.
#include "runtime/cpu/kernels/common/tap_spans.h"

namespace infer {

/// Results that read the same taps: those of one span of planes, rows and columns of each image.
struct TapSet {
  std::array<TapSpan, 3> spans;
  int64_t points = 0;  ///< of all images
  /// Runs of numbers that a point reads, in order of the taps: floats from its first tap's channel
  /// 0, rows of the weights [tap][channel], how many of both.
  std::vector<int64_t> x_at, w_at, length;
  /// Runs [parts[i], parts[i + 1]) are multiplied at once.
  std::vector<int64_t> parts;
};

class SameTaps {
 public:
  /// Extents `src` [N, C, i...] and `dst` [N, M, o...]; `channels`: of the C that a result reads;
  /// `pixel_floats`: from one pixel of the operand to the next.
  static SameTaps Of(const Spatial& s, bool transposed, const Dims& src, const Dims& dst,
                     int64_t channels, int64_t pixel_floats);

  const std::vector<TapSet>& sets() const { return sets_; }
  /// The pixels of points [first, first + count) of a set: where they read from, where they lie.
  void Pixels(const TapSet& set, int64_t first, int64_t count, int64_t* x, int64_t* y) const;
  /// Multiplications of one result by one weight each, of one channel of results.
  int64_t work() const;

 private:
  void Add(const TapSpan& plane, const TapSpan& row, const TapSpan& column, int64_t pixel_floats,
           int64_t channels);

  int64_t images_ = 1;
  std::array<int64_t, 3> in_ = {1, 1, 1}, out_ = {1, 1, 1}, kernel_ = {1, 1, 1};
  std::array<int64_t, 3> in_step_ = {1, 1, 1}, out_step_ = {1, 1, 1};
  std::vector<TapSet> sets_;
};

}  // namespace infer
