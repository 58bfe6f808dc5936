#include "runtime/cpu/kernels/common/tap_spans.h"

#include <utility>

namespace infer {

TapSpans TapSpans::Of(bool transposed, int64_t kernel, int64_t stride, int64_t dilation,
                      int64_t pad, int64_t in, int64_t out, int64_t longest) {
  TapSpans a;
  (transposed ? a.result_step : a.operand_step) = stride;
  for (int64_t phase = 0; phase < a.result_step; ++phase) {
    bool open = false;
    for (int64_t o = phase; o < out; o += a.result_step) {
      TapSpan s{o, 1, 0, {}, {}};
      for (int64_t k = 0; k < kernel; ++k) {
        int64_t i = transposed ? o + pad - k * dilation : o * stride - pad + k * dilation;
        if (transposed && (i < 0 || i % stride != 0)) continue;
        if (transposed) i /= stride;
        if (i < 0 || i >= in) continue;
        if (s.taps.empty()) s.from = i;
        s.taps.push_back(k);
        s.at.push_back(i - s.from);
      }
      if (open && a.spans.back().taps == s.taps && a.spans.back().count < longest)
        ++a.spans.back().count;
      else
        a.spans.push_back(std::move(s));
      open = true;
    }
  }
  return a;
}

WindowWalk WindowWalk::Of(const Spatial& s, bool transposed, const Dims& src, const Dims& dst,
                          int64_t pixel_floats, int64_t tap_floats) {
  // Long spans of columns are cut so that several lanes share one row of results.
  constexpr int64_t kLongest = 64;
  WindowWalk walk;
  walk.images_ = src[0];
  const size_t missing = 3 - s.kernel.size();
  for (size_t a = 0; a < 3; ++a) {
    if (a < missing) {
      walk.axes_[a].spans = {{0, 1, 0, {0}, {0}}};
      continue;
    }
    const size_t i = a - missing;
    walk.in_[a] = src[2 + i];
    walk.out_[a] = dst[2 + i];
    walk.kernel_[a] = s.kernel[i];
    walk.axes_[a] =
        TapSpans::Of(transposed, s.kernel[i], s.strides[i], s.dilations[i], s.pads_begin[i],
                     walk.in_[a], walk.out_[a], a == 2 ? kLongest : walk.out_[a]);
  }
  walk.Combine(pixel_floats, tap_floats);
  return walk;
}

void WindowWalk::Combine(int64_t pixel_floats, int64_t tap_floats) {
  for (const TapSpan& p : axes_[0].spans)
    for (const TapSpan& r : axes_[1].spans)
      for (const TapSpan& c : axes_[2].spans) {
        Taps& t = taps_.emplace_back();
        for (size_t k = 0; k < p.taps.size(); ++k)
          for (size_t i = 0; i < r.taps.size(); ++i)
            for (size_t j = 0; j < c.taps.size(); ++j) {
              const int64_t x_row = p.at[k] * in_[1] + r.at[i];
              const int64_t w_row = p.taps[k] * kernel_[1] + r.taps[i];
              t.x_at.push_back((x_row * in_[2] + c.at[j]) * pixel_floats);
              t.w_at.push_back((w_row * kernel_[2] + c.taps[j]) * tap_floats);
            }
      }
}

WindowWalk::Run WindowWalk::RunOf(const TapSpan& plane, const TapSpan& row, int64_t i,
                                  size_t column_span, const Taps* taps) const {
  const TapSpan& column = axes_[2].spans[column_span];
  const int64_t r = i % row.count, p = i / row.count % plane.count;
  const int64_t image = i / row.count / plane.count;
  const int64_t x_plane = image * in_[0] + plane.from + p * axes_[0].operand_step;
  const int64_t y_plane = image * out_[0] + plane.first + p * axes_[0].result_step;
  const int64_t x_row = x_plane * in_[1] + row.from + r * axes_[1].operand_step;
  const int64_t y_row = y_plane * out_[1] + row.first + r * axes_[1].result_step;
  return {x_row * in_[2] + column.from, y_row * out_[2] + column.first, column.count,
          taps + column_span};
}

}  // namespace infer
