#include "runtime/cpu/kernels/conv/same_taps.h"

namespace infer {
namespace {

/// Rows of weights that are multiplied before the next points: two vectors of each stay in L2.
constexpr int64_t kRowsAtOnce = 2048;

}  // namespace

SameTaps SameTaps::Of(const Spatial& s, bool transposed, const Dims& src, const Dims& dst,
                      int64_t channels, int64_t pixel_floats) {
  SameTaps t;
  t.images_ = src[0];
  std::array<TapSpans, 3> axes;
  const size_t missing = 3 - s.kernel.size();
  for (size_t a = 0; a < missing; ++a) axes[a].spans = {{0, 1, 0, {0}, {0}}};
  for (size_t i = 0; i < s.kernel.size(); ++i) {
    const size_t a = missing + i;
    t.in_[a] = src[2 + i];
    t.out_[a] = dst[2 + i];
    t.kernel_[a] = s.kernel[i];
    axes[a] = TapSpans::Of(transposed, s.kernel[i], s.strides[i], s.dilations[i], s.pads_begin[i],
                           t.in_[a], t.out_[a], t.out_[a]);
    t.in_step_[a] = axes[a].operand_step;
    t.out_step_[a] = axes[a].result_step;
  }
  for (const TapSpan& plane : axes[0].spans)
    for (const TapSpan& row : axes[1].spans)
      for (const TapSpan& column : axes[2].spans) t.Add(plane, row, column, pixel_floats, channels);
  return t;
}

void SameTaps::Add(const TapSpan& plane, const TapSpan& row, const TapSpan& column,
                   int64_t pixel_floats, int64_t channels) {
  TapSet& set = sets_.emplace_back();
  set.spans = {plane, row, column};
  set.points = images_ * plane.count * row.count * column.count;
  for (size_t k = 0; k < plane.taps.size(); ++k)
    for (size_t i = 0; i < row.taps.size(); ++i)
      for (size_t j = 0; j < column.taps.size(); ++j) {
        const int64_t x_row = plane.at[k] * in_[1] + row.at[i];
        const int64_t w_row = plane.taps[k] * kernel_[1] + row.taps[i];
        const int64_t x = (x_row * in_[2] + column.at[j]) * pixel_floats;
        const int64_t w = (w_row * kernel_[2] + column.taps[j]) * channels;
        for (int64_t c = 0; c < channels; c += kRowsAtOnce) {
          const int64_t length = std::min(kRowsAtOnce, channels - c);
          // Neighbours in memory are one run.
          if (!set.length.empty() && set.x_at.back() + set.length.back() == x + c &&
              set.w_at.back() + set.length.back() == w + c &&
              set.length.back() + length <= kRowsAtOnce) {
            set.length.back() += length;
            continue;
          }
          set.x_at.push_back(x + c);
          set.w_at.push_back(w + c);
          set.length.push_back(length);
        }
      }
  int64_t rows = 0;
  set.parts = {0};
  for (size_t r = 0; r < set.length.size(); ++r) {
    if (rows > 0 && rows + set.length[r] > kRowsAtOnce) {
      set.parts.push_back(static_cast<int64_t>(r));
      rows = 0;
    }
    rows += set.length[r];
  }
  set.parts.push_back(std::ssize(set.length));
}

void SameTaps::Pixels(const TapSet& set, int64_t first, int64_t count, int64_t* x,
                      int64_t* y) const {
  int64_t at[4];  // image, plane, row, column
  at[3] = first % set.spans[2].count;
  first /= set.spans[2].count;
  at[2] = first % set.spans[1].count;
  first /= set.spans[1].count;
  at[1] = first % set.spans[0].count;
  at[0] = first / set.spans[0].count;
  for (int64_t i = 0; i < count;) {
    int64_t from = at[0], to = at[0];
    for (size_t a = 0; a < 3; ++a) {
      from = from * in_[a] + set.spans[a].from + at[a + 1] * in_step_[a];
      to = to * out_[a] + set.spans[a].first + at[a + 1] * out_step_[a];
    }
    const int64_t run = std::min(count - i, set.spans[2].count - at[3]);
    for (int64_t j = 0; j < run; ++j, ++i, from += in_step_[2], to += out_step_[2]) {
      x[i] = from;
      y[i] = to;
    }
    at[3] = 0;
    if (++at[2] < set.spans[1].count) continue;
    at[2] = 0;
    if (++at[1] < set.spans[0].count) continue;
    at[1] = 0;
    ++at[0];
  }
}

int64_t SameTaps::work() const {
  int64_t sum = 0;
  for (const TapSet& set : sets_)
    for (const int64_t length : set.length) sum += set.points * length;
  return sum;
}

}  // namespace infer
