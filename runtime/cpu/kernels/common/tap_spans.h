#pragma once
/// Which results of a convolution or transposed convolution read the same taps of the kernel, so
/// that kernels skip what lies outside of the operand without asking for each tap.
#include <algorithm>
#include <array>
#include <vector>

#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {

/// Results along an axis that read the same taps of the kernel: result i reads operand
/// `from + i * from_step + at[t]` by taps[t].
struct TapSpan {
  int64_t first = 0, count = 0;  ///< results
  int64_t from = 0;              ///< operand of taps[0] for the first of them
  std::vector<int64_t> taps, at;
};

/// One axis: results, the operands they read, how results and operands step along a span.
struct TapSpans {
  int64_t result_step = 1, operand_step = 1;
  std::vector<TapSpan> spans;

  /// `longest`: results in a span at most.
  static TapSpans Of(bool transposed, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad,
                     int64_t in, int64_t out, int64_t longest);
};

/// The results of a convolution of one to three dimensions on channels last, as runs of pixels in a
/// row that read the same taps.
class WindowWalk {
 public:
  struct Taps {
    std::vector<int64_t> x_at, w_at;  ///< floats
  };
  /// Pixel i of `pixels` is y_pixel + i * y_step() of the result and reads from
  /// x_pixel + i * x_step() of the operand on.
  struct Run {
    int64_t x_pixel, y_pixel, pixels;
    const Taps* taps;
  };

  /// Extents `src` [N, C, i...] and `dst` [N, C, o...]; floats of a pixel of the operand and of a
  /// tap of the packed weights.
  static WindowWalk Of(const Spatial& s, bool transposed, const Dims& src, const Dims& dst,
                       int64_t pixel_floats, int64_t tap_floats);

  int64_t x_step() const { return axes_[2].operand_step; }
  int64_t y_step() const { return axes_[2].result_step; }
  int64_t x_pixels() const { return images_ * in_[0] * in_[1] * in_[2]; }

  /// f(run) for all runs, on several lanes; `work`: multiplications of a result by a row of the
  /// kernel.
  template <typename F>
  void ForRuns(int64_t work, const F& f) const {
    const auto spans = static_cast<int64_t>(axes_[2].spans.size());
    const int64_t of_run = out_[2] * work / spans + 1;
    size_t taps_at = 0;
    for (const TapSpan& plane : axes_[0].spans)
      for (const TapSpan& row : axes_[1].spans) {
        const Taps* const taps = &taps_[taps_at];
        taps_at += axes_[2].spans.size();
        // A row of results for each member of each span of planes and rows.
        ForRange(images_ * plane.count * row.count * spans, std::max<int64_t>(1, 32768 / of_run),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     f(RunOf(plane, row, i / spans, static_cast<size_t>(i % spans), taps));
                 });
      }
  }

 private:
  Run RunOf(const TapSpan& plane, const TapSpan& row, int64_t i, size_t column_span,
            const Taps* taps) const;
  void Combine(int64_t pixel_floats, int64_t tap_floats);

  int64_t images_ = 1;
  std::array<int64_t, 3> in_ = {1, 1, 1}, out_ = {1, 1, 1}, kernel_ = {1, 1, 1};
  std::array<TapSpans, 3> axes_;  ///< planes, rows, columns; one point where there is no axis
  std::vector<Taps> taps_;        ///< by span of planes, then of rows, then of columns
};

}  // namespace infer
