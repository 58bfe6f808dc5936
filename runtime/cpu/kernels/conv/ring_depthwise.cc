#include "runtime/cpu/kernels/conv/ring_depthwise.h"

#include <algorithm>

#include "lib/support/parallel.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// Where less of a row of the window is inside, zeros cost more than borders do.
constexpr double kLeastInside = 0.6;
/// Strips of rows: results side by side at most.
constexpr int64_t kMostWide = 56;

}  // namespace

/// Some columns of the results of some channels of one image.
struct RingDepthwise::Strip {
  int64_t image, block, channels, column, columns;
};

/// The share of results and taps of an axis that read the operand.
double RingDepthwise::Axis::inside() const {
  int64_t sum = 0;
  for (int64_t o = 0; o < out; ++o)
    for (int64_t k = 0; k < kernel; ++k) {
      const int64_t i = o * stride + k * dilation - pad;
      sum += i >= 0 && i < in ? 1 : 0;
    }
  return static_cast<double>(sum) / static_cast<double>(out * kernel);
}

Result<RingDepthwise> RingDepthwise::Of(const Spatial& s, const Dims& src, const Dims& dst,
                                        bool plain, const Appended& appended) {
  if (src.size() != 4 || src[1] != dst[1]) return Unsupported("no image of one result per channel");
  RingDepthwise r;
  r.loop_ = &simd::TheDepthwise();
  r.appended_ = appended;
  r.plain_ = plain;
  r.images_ = src[0];
  r.channels_ = src[1];
  for (size_t i = 0; i < 2; ++i)
    (i == 0 ? r.rows_ : r.columns_) = {s.kernel[i],     s.strides[i], s.dilations[i],
                                       s.pads_begin[i], src[i + 2],   dst[i + 2]};
  const Axis& c = r.columns_;
  r.by_ = c.out <= r.loop_->short_row ? 2 : 1;
  r.held_ = r.rows_.reach() + (r.by_ - 1) * r.rows_.stride;
  const int64_t lanes = r.loop_->lanes, most = kRingFloats / lanes / (r.held_ + 1);
  if (r.held_ > kMostRows || most < c.reach()) return Unsupported("a wide window");
  if (c.inside() < kLeastInside) return Unsupported("much padding");
  const int64_t widest =
      std::min({(most - c.reach()) / c.stride + 1, kRowFloats / lanes, kMostWide});
  r.width_ = BlocksOf(c.out, BlocksOf(c.out, widest));
  r.pitch_ = (r.width_ - 1) * c.stride + c.reach();
  return r;
}

std::shared_ptr<const Buffer> RingDepthwise::Pack(const Tensor& w) {
  const int64_t lanes = simd::TheDepthwise().lanes, channels = w.dim(0);
  const int64_t taps = w.num_elements() / channels, blocks = BlocksOf(channels, lanes);
  auto buffer = Buffer::Allocate(static_cast<size_t>(blocks * taps * lanes) * sizeof(float));
  float* to = As<float>(buffer->mutable_data());
  const auto from = w.data<float>();
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t t = 0; t < taps; ++t)
      for (int64_t c = b * lanes; c < (b + 1) * lanes; ++c)
        *to++ = c < channels ? from[static_cast<size_t>(c * taps + t)] : 0.0f;
  return buffer;
}

simd::PixelsAt RingDepthwise::at(int64_t points, int64_t channels) const {
  return plain_ ? simd::PixelsAt{1, points, channels} : simd::PixelsAt{channels_, 1, channels};
}

/// Row `row` of the operand, inside of it, as the strip reads it.
void RingDepthwise::Fill(const float* x, const Strip& s, int64_t row, float* to) const {
  const int64_t lanes = loop_->lanes, points = rows_.in * columns_.in;
  const int64_t left = s.column * columns_.stride - columns_.pad;
  const int64_t begin = std::clamp<int64_t>(-left, 0, pitch_);
  const int64_t end = std::clamp<int64_t>(columns_.in - left, begin, pitch_);
  std::fill_n(to, begin * lanes, 0.0f);
  std::fill_n(to + end * lanes, (pitch_ - end) * lanes, 0.0f);
  const simd::PixelsAt from = at(points, s.channels);
  const float* const image = x + s.image * channels_ * points;
  loop_->gather(
      image + s.block * lanes * from.channel + (row * columns_.in + left + begin) * from.pixel,
      x + images_ * channels_ * points, from, end - begin, to + begin * lanes);
}

/// Where the rows of the window of a row of results lie, from the first that is inside of the
/// operand to the last. Rows outside between those of two rows of results are the row of zeros.
/// Returns the row of the window that is first.
int64_t RingDepthwise::Window(int64_t row, const float* const* ring, const float** window) const {
  int64_t first = rows_.kernel;
  for (int64_t k = 0; k < rows_.kernel; ++k) {
    const int64_t i = row * rows_.stride + k * rows_.dilation - rows_.pad;
    const bool inside = i >= 0 && i < rows_.in;
    window[k] = ring[inside ? i % held_ : held_];
    if (inside) first = std::min(first, k);
  }
  return first;
}

/// `count` rows of the results from `row` on; ring[i]: row i of the operand modulo what is held.
void RingDepthwise::Some(const Strip& s, int64_t row, int64_t count, const float* const* ring,
                         const float* w, float* y, float* results) const {
  const int64_t lanes = loop_->lanes, points = rows_.out * columns_.out;
  const simd::PixelsAt to = at(points, s.channels);
  float* const place = y + s.image * channels_ * points + s.block * lanes * to.channel +
                       (row * columns_.out + s.column) * to.pixel;
  const int64_t line = columns_.out * to.pixel, floats = s.columns * lanes;
  const float* windows[2][kMostRows];
  int64_t first = rows_.kernel, end = 0;
  for (int64_t i = 0; i < count; ++i) {
    first = std::min(first, Window(row + i, ring, windows[i]));
    for (int64_t k = 0; k < rows_.kernel; ++k)
      if (windows[i][k] != ring[held_]) end = std::max(end, k + 1);
  }
  float* const bias = results + kRowFloats;
  const bool add = appended_.residual >= 0;
  for (int64_t i = 0; add && i < count; ++i)
    loop_->gather(place + i * line, y + images_ * channels_ * points, to, s.columns,
                  results + i * floats);
  for (int64_t i = 0; add && i < count * floats; ++i) results[i] += bias[i % lanes];
  simd::PixelRowCall call;
  call.rows = windows[0] + first;
  call.below = count > 1 ? windows[1] + first : nullptr;
  call.step = columns_.stride * lanes;
  call.tap_step = columns_.dilation * lanes;
  call.w = w + first * columns_.kernel * lanes;
  call.window_rows = std::max<int64_t>(0, end - first);
  call.window_columns = columns_.kernel;
  call.y = results;
  call.pixels = s.columns;
  call.start = add ? nullptr : bias;
  loop_->row(call);
  if (appended_.function) appended_.Apply(results, count * floats);
  for (int64_t i = 0; i < count; ++i)
    loop_->scatter(results + i * floats, to, s.columns, place + i * line);
}

/// Rows begin ... end - 1 of the results of all strips, one strip after the other.
void RingDepthwise::Rows(const float* x, const float* w, const float* bias, float* y, int64_t begin,
                         int64_t end) const {
  alignas(64) float ring[kRingFloats], results[kRowFloats + 16];
  const int64_t lanes = loop_->lanes, across = BlocksOf(columns_.out, width_);
  const int64_t blocks = BlocksOf(channels_, lanes);
  const float* place[kMostRows + 1];
  for (int64_t i = 0; i <= held_; ++i) place[i] = ring + i * pitch_ * lanes;
  std::fill_n(ring + held_ * pitch_ * lanes, pitch_ * lanes, 0.0f);
  for (int64_t u = begin; u < end;) {
    const int64_t strip = u / rows_.out, block = strip / across % blocks;
    const int64_t column = strip % across * width_;
    const Strip s{strip / across / blocks, block, std::min(lanes, channels_ - block * lanes),
                  column, std::min(width_, columns_.out - column)};
    std::fill_n(results + kRowFloats, lanes, 0.0f);
    if (bias) std::copy_n(bias + block * lanes, s.channels, results + kRowFloats);
    const int64_t last = std::min(end, (strip + 1) * rows_.out);
    int64_t next = 0;  // row of the operand that the ring does not hold yet
    for (int64_t count = 1; u < last; u += count) {
      count = std::min(by_, last - u);
      const int64_t row = u - strip * rows_.out, top = row * rows_.stride - rows_.pad;
      next = std::max(next, top);
      const int64_t below = top + (count - 1) * rows_.stride + rows_.reach();
      for (; next < std::min(rows_.in, below); ++next)
        Fill(x, s, next, ring + next % held_ * pitch_ * lanes);
      Some(s, row, count, place, w + block * rows_.kernel * columns_.kernel * lanes, y, results);
    }
  }
}

void RingDepthwise::Run(const float* x, const float* w, const float* bias, float* y) const {
  const int64_t strips =
      images_ * BlocksOf(channels_, loop_->lanes) * BlocksOf(columns_.out, width_);
  const int64_t work = width_ * loop_->lanes * rows_.kernel * columns_.kernel;
  // Strips that are cut read what rows share twice.
  const int64_t grain = std::max({int64_t{1}, 500000 / work, 2 * rows_.reach() / rows_.stride});
  ForRange(strips * rows_.out, std::min(grain, strips * rows_.out),
           [&](int64_t begin, int64_t end) { Rows(x, w, bias, y, begin, end); });
}

}  // namespace infer
