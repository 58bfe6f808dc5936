#include "runtime/cpu/kernels/conv/plane_conv.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "lib/support/parallel.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// Floats on the stack: of the operand's copy, which stays in L1, and of sums. More than one strip
/// reads costs more than it saves, more sums than that leave L1.
constexpr int64_t kCopyFloats = 8192, kSumFloats = 8192;
/// Points of a strip at most, and from how few on the loop over taps is worth a call.
constexpr int64_t kFewPoints = 512, kManyPoints = 192, kLeastPoints = 16;
/// Of one line each result is a stream of its own to memory: short pieces take up to five times as
/// long (512 results of 32,000 points).
constexpr int64_t kLongLine = 1536;
/// With fewer points oneDNN's product is as fast, for many outputs.
constexpr int64_t kManyLeast = 40;
/// With fewer points vectors of channels are as fast, for several results of each channel.
constexpr int64_t kChannelsLeast = 100;
/// With more results of a group of several channels vectors of results are as fast.
constexpr int64_t kMostOfSeveral = 12;
/// Planes of windows of one point that are read where they lie: more are too far apart for the
/// caches' sets.
constexpr int64_t kMostDirect = 8;
/// Where more of what groups would multiply is padding, it is left out elsewhere.
constexpr double kMostPadding = 0.2;
/// Of rows by columns: with more phases of the operand their copies cost more than they save.
constexpr int64_t kWidestStep = 4;
/// Shorter sums are not computed in tiles.
constexpr int64_t kManyTerms = 20;
/// So many phases of a transposed convolution fill oneDNN's blocks of channels.
constexpr int64_t kManyPhases = 16;
/// Bundles of outputs that are computed from one copy before another lane makes its own.
constexpr int64_t kBundlesOfCopy = 32;

/// Rows are short: a call for each would take most of the time.
inline void CopyShort(const float* from, int64_t n, float* to) {
  for (; n >= 8; n -= 8, from += 8, to += 8) std::memcpy(to, from, 32);
  if (n & 4) {
    std::memcpy(to, from, 16);
    from += 4;
    to += 4;
  }
  if (n & 2) {
    std::memcpy(to, from, 8);
    from += 2;
    to += 2;
  }
  if (n & 1) *to = *from;
}

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

/// Some places of results of one image.
struct PlaneConv::Strip {
  int64_t image, row, rows, column, columns;
  int64_t points(int64_t pitch) const { return (rows - 1) * pitch + columns; }
};

PlaneConv::Axis PlaneConv::Axis::Of(bool transposed, int64_t kernel, int64_t stride,
                                    int64_t dilation, int64_t pad, int64_t in, int64_t out) {
  Axis a;
  a.kernel = kernel;
  a.in = in;
  a.out = out;
  a.taps.clear();
  std::set<int64_t> froms;
  int64_t most = 0;
  for (int64_t k = 0; k < kernel; ++k) {
    Tap t{k, 0, 0, 0};
    if (transposed) {
      t.to = k * dilation % stride;
      t.shift = (t.to - k * dilation) / stride;
    } else {
      t.shift = FloorDiv(k * dilation - pad, stride);
      t.from = k * dilation - pad - t.shift * stride;
    }
    a.least = k == 0 ? t.shift : std::min(a.least, t.shift);
    most = k == 0 ? t.shift : std::max(most, t.shift);
    froms.insert(t.from);
    a.taps.push_back(t);
  }
  a.froms.assign(froms.begin(), froms.end());
  a.span = most - a.least;
  if (transposed) {
    a.to_step = stride;
    a.crop = pad;
    a.first = pad / stride;
    a.count = (pad + out - 1) / stride + 1 - a.first;
  } else {
    a.from_step = stride;
    a.count = out;
  }
  a.size = a.count;
  return a;
}

int64_t PlaneConv::Axis::from_index(int64_t from) const {
  return std::lower_bound(froms.begin(), froms.end(), from) - froms.begin();
}

/// The share of results and taps that read the operand, of a convolution.
double PlaneConv::Axis::inside() const {
  if (to_step > 1) return 1;
  int64_t sum = 0;
  for (const Tap& t : taps) {
    // Result q reads (q + shift) * from_step + from.
    const int64_t end = FloorDiv(in - 1 - t.from, from_step) + 1 - t.shift;
    const int64_t begin = std::max<int64_t>(0, -t.shift);
    sum += std::max<int64_t>(0, std::min(count, end) - begin);
  }
  return static_cast<double>(sum) / static_cast<double>(count * std::ssize(taps));
}

Result<PlaneConv> PlaneConv::Of(const Spatial& s, bool transposed, int64_t groups, const Dims& src,
                                const Dims& dst, const Appended& appended) {
  const size_t n = s.kernel.size();
  if (n > 2) return Unsupported("three dimensions");
  PlaneConv p;
  p.loop_ = &simd::TheSkinny();
  p.appended_ = appended;
  p.transposed_ = transposed;
  p.groups_ = groups;
  p.images_ = src[0] * groups;
  p.inputs_ = src[1] / groups;
  p.outputs_ = dst[1] / groups;
  for (size_t i = 0; i < n; ++i)
    (i + 1 == n ? p.columns_ : p.rows_) =
        Axis::Of(transposed, s.kernel[i], s.strides[i], s.dilations[i], s.pads_begin[i], src[i + 2],
                 dst[i + 2]);
  INFER_TRY(p.Cut());
  p.MakePhases();
  return p;
}

bool PlaneConv::IsOneLine() const {
  return !transposed_ && groups_ == 1 && inputs_ == 1 && rows_.kernel == 1 && rows_.in == 1 &&
         rows_.out == 1;
}

Status PlaneConv::Cut() {
  Axis &r = rows_, &c = columns_;
  const bool one_point = r.kernel * c.kernel == 1 && !transposed_;
  // Of one channel along a line oneDNN's product is the smaller part: its results must be turned.
  const bool one_line = IsOneLine();
  if (outputs_ > MostOutputs(groups_) && !one_point && !one_line)
    return Unsupported("many outputs");
  if (groups_ > 1 && inputs_ > 1 && outputs_ > kMostOfSeveral && !one_point)
    return Unsupported("many outputs of a group");
  if (groups_ > 1 && inputs_ > 1 && r.from_step * c.from_step > kWidestStep &&
      r.kernel * c.kernel * inputs_ >= kManyTerms)
    return Unsupported("wide strides of groups");
  if (groups_ > 1 && r.inside() * c.inside() < 1 - kMostPadding) return Unsupported("much padding");
  const bool inside = r.least >= 0 && c.least >= 0 && r.count + r.span == r.in &&
                      c.count + c.span == c.in && r.from_step * c.from_step == 1 &&
                      r.first + c.first == 0;
  into_result_ = (one_point || one_line) &&
                 (outputs_ > loop_->together || (one_point && groups_ > 1 && inside));
  direct_ = inside && (into_result_ ? groups_ > 1 && inputs_ <= kMostDirect : c.in <= kFewPoints);
  // A vector for each output would hold hardly any points.
  const int64_t least = groups_ > 1 && inputs_ == 1 && !one_point ? kChannelsLeast
                        : into_result_ || groups_ > 1             ? kManyLeast
                                                                  : kLeastPoints;
  if (r.count * (c.count + c.span) < least) return Unsupported("few points");
  const int64_t sums = r.to_step * c.to_step * outputs_;
  if (r.to_step * c.to_step >= kManyPhases) return Unsupported("many phases");
  if (!into_result_ && sums > kSumFloats / kLeastPoints) return Unsupported("many phases");
  int64_t most = one_line && into_result_ ? kLongLine
                 : into_result_           ? kManyPoints
                                          : std::min(kFewPoints, kSumFloats / sums);
  const auto per_channel = [&] {
    plane_ = (r.size + r.span) * pitch_;
    return plane_ * std::ssize(r.froms) * std::ssize(c.froms);
  };
  while (true) {
    const bool whole_rows = direct_ && !into_result_;
    if (whole_rows) most = std::max(most, c.in);
    c.Cut(whole_rows ? c.count : std::max<int64_t>(1, most - c.span));
    // Sums kept in the result need whole rows, or one part of a row: so it is, as a part of rows
    // has more than half of `most`.
    pitch_ = whole_rows ? c.in : c.size + c.span;
    r.Cut(std::max<int64_t>(1, most / pitch_));
    if (direct_ || per_channel() <= kCopyFloats) break;
    most = most * 3 / 4;
    if (most < c.span + kLeastPoints) return Unsupported("a wide window");
  }
  if (c.size < std::min(kLeastPoints, c.count)) return Unsupported("a wide window");
  if (!into_result_ && r.size * pitch_ * sums > kSumFloats)
    return Unsupported("long rows of many sums");
  chunk_ = std::clamp<int64_t>(kCopyFloats / per_channel(), 1, inputs_);
  if (direct_) plane_ = r.in * c.in;
  return {};
}

void PlaneConv::MakePhases() {
  std::vector<std::vector<int64_t>> reads;  // of one channel, by Phases
  std::vector<std::pair<size_t, int64_t>> at;
  for (int64_t row = 0; row < rows_.to_step; ++row)
    for (int64_t column = 0; column < columns_.to_step; ++column) {
      std::vector<int64_t> read, taps;
      for (const Tap& i : rows_.taps)
        for (const Tap& j : columns_.taps) {
          if (i.to != row || j.to != column) continue;
          taps.push_back(i.k * columns_.kernel + j.k);
          const int64_t plane =
              rows_.from_index(i.from) * std::ssize(columns_.froms) + columns_.from_index(j.from);
          read.push_back(plane * plane_ + (i.shift - rows_.least) * pitch_ + j.shift -
                         columns_.least);
        }
      const auto same = std::find(reads.begin(), reads.end(), read);
      const auto of = static_cast<size_t>(same - reads.begin());
      if (same == reads.end()) {
        reads.push_back(read);
        phases_.emplace_back();
      }
      at.emplace_back(of, phases_[of].count());
      phases_[of].w_taps.push_back(std::move(taps));
    }
  const int64_t channel = plane_ * std::ssize(rows_.froms) * std::ssize(columns_.froms);
  int64_t w_at = 0;
  std::vector<int64_t> first;
  for (size_t i = 0; i < phases_.size(); ++i) {
    Phases& p = phases_[i];
    first.push_back(i == 0 ? 0 : first.back() + phases_[i - 1].count());
    p.w_at = w_at;
    w_at += p.taps() * p.count() * inputs_ * outputs_;
    for (int64_t c = 0; c < chunk_; ++c)
      for (const int64_t r : reads[i]) p.x_at.push_back(c * channel + r);
  }
  for (const auto& [of, member] : at) place_.push_back(first[of] + member);
}

/// Per group and Phases: [bundle of outputs][channel][tap][phase][output of the bundle].
std::shared_ptr<const Buffer> PlaneConv::Pack(const Tensor& w) const {
  auto buffer = Buffer::Allocate(static_cast<size_t>(w.num_elements()) * sizeof(float));
  float* to = As<float>(buffer->mutable_data());
  const float* const from = w.data<float>().data();
  const int64_t taps = rows_.kernel * columns_.kernel;
  const int64_t input = transposed_ ? outputs_ * taps : taps;
  const int64_t output = transposed_ ? taps : inputs_ * taps;
  const int64_t bundle = into_result_ ? loop_->together : outputs_;
  const auto pack = [&](const Phases& p, const float* group, int64_t first) {
    for (int64_t c = 0; c < inputs_; ++c)
      for (size_t tap = 0; tap < static_cast<size_t>(p.taps()); ++tap)
        for (const auto& of : p.w_taps)
          for (int64_t o = first; o < std::min(outputs_, first + bundle); ++o)
            *to++ = group[c * input + o * output + of[tap]];
  };
  for (int64_t g = 0; g < groups_; ++g)
    for (const Phases& p : phases_)
      for (int64_t first = 0; first < outputs_; first += bundle)
        pack(p, from + g * inputs_ * outputs_ * taps, first);
  return buffer;
}

/// One channel of what the strip reads: [phase of rows][phase of columns][row][pitch]. Places
/// outside of the operand are left as they are.
void PlaneConv::Gather(const float* x, const Strip& s, int64_t channel, float* to) const {
  const float* const from = x + (s.image * inputs_ + channel) * rows_.in * columns_.in;
  const int64_t step = columns_.from_step;
  for (const int64_t row_phase : rows_.froms)
    for (const int64_t phase : columns_.froms) {
      // Column j of the copy is (left + j) * step + phase of the operand.
      const int64_t left = s.column + columns_.least;
      const int64_t begin = std::clamp<int64_t>(-left, 0, pitch_);
      const int64_t inside = FloorDiv(columns_.in - 1 - phase, step) + 1 - left;
      const int64_t count = std::clamp<int64_t>(inside, begin, pitch_) - begin;
      float* at = to + begin;
      to += plane_;
      for (int64_t i = 0; i < s.rows + rows_.span; ++i, at += pitch_) {
        const int64_t row = (s.row + rows_.least + i) * rows_.from_step + row_phase;
        if (row < 0 || row >= rows_.in) continue;
        const float* const line = from + row * columns_.in + (left + begin) * step + phase;
        if (step == 1)
          CopyShort(line, count, at);
        else if (step == 2)
          for (int64_t j = 0; j < count; ++j) at[j] = line[2 * j];
        else
          for (int64_t j = 0; j < count; ++j) at[j] = line[j * step];
      }
    }
}

/// Some channels of what the strip reads. The places outside of the operand are the same for all.
void PlaneConv::Copy(const float* x, const Strip& s, int64_t first, int64_t channels,
                     float* to) const {
  const int64_t floats = plane_ * std::ssize(rows_.froms) * std::ssize(columns_.froms);
  if (first == 0) std::fill_n(to, channels * floats, 0.0f);
  for (int64_t c = 0; c < channels; ++c) Gather(x, s, first + c, to + c * floats);
}

/// All outputs at once, their sums on the stack.
void PlaneConv::Few(const float* x, const float* w, const float* bias, float* y,
                    const Strip& s) const {
  alignas(64) float copy[kCopyFloats], sums[kSumFloats];
  w += of_group(s.image, rows_.kernel * columns_.kernel * inputs_ * outputs_);
  const int64_t points = s.points(pitch_);
  float start[kSumFloats / kLeastPoints];
  if (bias)
    for (int64_t i = 0; i < std::ssize(place_); ++i)
      std::copy_n(bias + of_group(s.image, outputs_), outputs_, start + i * outputs_);
  for (int64_t first = 0; first < inputs_; first += chunk_) {
    const int64_t channels = std::min(chunk_, inputs_ - first);
    if (!direct_) Copy(x, s, first, channels, copy);
    float* tile = sums;
    for (const Phases& p : phases_) {
      simd::PointsCall call;
      call.outputs = outputs_ * p.count();
      call.x = direct_ ? x + (s.image * inputs_ + first) * plane_ + s.row * pitch_ : copy;
      call.x_at = p.x_at.data();
      call.taps = channels * p.taps();
      call.w = w + p.w_at + first * p.taps() * call.outputs;
      call.w_tap = call.outputs;
      call.y = tile;
      call.y_stride = points;
      call.points = points;
      call.start = first == 0 && bias ? start : nullptr;
      call.add = first > 0;
      loop_->points(call);
      tile += call.outputs * points;
    }
  }
  Deliver(sums, y, s);
}

/// Sums [phase][output][row][pitch] to their places in the result.
void PlaneConv::Deliver(const float* tile, float* y, const Strip& s) const {
  const int64_t points = s.points(pitch_), step = columns_.to_step;
  const bool add = appended_.residual >= 0;
  const auto clip = [](int64_t v, int64_t most) { return std::clamp<int64_t>(v, 0, most); };
  for (int64_t row_phase = 0; row_phase < rows_.to_step; ++row_phase)
    for (int64_t o = 0; o < outputs_; ++o)
      for (int64_t i = 0; i < s.rows; ++i) {
        const int64_t row = (s.row + i) * rows_.to_step + row_phase - rows_.crop;
        if (row < 0 || row >= rows_.out) continue;
        float* const to = y + ((s.image * outputs_ + o) * rows_.out + row) * columns_.out;
        for (int64_t phase = 0; phase < step; ++phase) {
          const float* const from =
              tile +
              (place_[static_cast<size_t>(row_phase * step + phase)] * outputs_ + o) * points +
              i * pitch_;
          // Column j goes to left + j * step.
          const int64_t left = s.column * step + phase - columns_.crop;
          const int64_t begin = clip(FloorDiv(step - 1 - left, step), s.columns);
          const int64_t end = clip(FloorDiv(columns_.out - 1 - left, step) + 1, s.columns);
          if (add)
            for (int64_t j = begin; j < end; ++j) to[left + j * step] += from[j];
          else if (step == 1)
            std::copy(from + begin, from + end, to + left + begin);
          else
            for (int64_t j = begin; j < end; ++j) to[left + j * step] = from[j];
        }
        const int64_t begin = clip(s.column * step - columns_.crop, columns_.out);
        const int64_t end = clip((s.column + s.columns) * step - columns_.crop, columns_.out);
        if (appended_.function) appended_.Apply(to + begin, end - begin);
      }
}

/// Some bundles of outputs, added up where the result lies.
void PlaneConv::Many(const float* x, const float* w, const float* bias, float* y, const Strip& s,
                     int64_t first_bundle, int64_t end_bundle) const {
  alignas(64) float copy[kCopyFloats];
  const int64_t points = s.points(pitch_), plane = rows_.out * columns_.out;
  float* const to = y + s.image * outputs_ * plane + s.row * columns_.out + s.column;
  const int64_t first_output = first_bundle * loop_->together;
  const int64_t end_output = std::min(outputs_, end_bundle * loop_->together);
  const int64_t taps = rows_.kernel * columns_.kernel;
  w += of_group(s.image, inputs_ * outputs_);
  if (bias) bias += of_group(s.image, outputs_);
  for (int64_t first = 0; first < inputs_; first += chunk_) {
    const int64_t channels = std::min(chunk_, inputs_ - first);
    if (!direct_) Copy(x, s, first, channels, copy);
    const float* const from =
        direct_ ? x + (s.image * inputs_ + first) * plane + s.row * columns_.in + s.column : copy;
    for (int64_t o = first_output; o < end_output; o += loop_->together) {
      simd::PointsCall call;
      call.outputs = std::min(loop_->together, outputs_ - o);
      call.x = from;
      call.x_at = phases_[0].x_at.data();
      call.taps = channels * taps;
      call.w = w + (o * inputs_ + first * call.outputs) * taps;
      call.w_tap = call.outputs;
      call.y = to + o * plane;
      call.y_stride = plane;
      call.points = points;
      call.start = first == 0 && bias ? bias + o : nullptr;
      call.add = first > 0 || appended_.residual >= 0;
      loop_->points(call);
    }
  }
  if (!appended_.function) return;
  for (int64_t o = first_output; o < end_output; ++o) appended_.Apply(to + o * plane, points);
}

void PlaneConv::Run(const float* x, const float* w, const float* bias, float* y) const {
  const int64_t across = columns_.strips(), down = rows_.strips();
  const int64_t blocks = into_result_ ? BlocksOf(bundles(), kBundlesOfCopy) : 1;
  const int64_t work = rows_.size * columns_.size * inputs_ * std::min(outputs_, int64_t{256}) *
                       rows_.kernel * columns_.kernel;
  ForRange(images_ * down * across * blocks, std::max<int64_t>(1, 200000 / work),
           [&](int64_t begin, int64_t end) {
             for (int64_t u = begin; u < end; ++u) {
               const int64_t block = u % blocks, column = u / blocks % across * columns_.size;
               const int64_t row = u / blocks / across % down * rows_.size;
               const Strip s{u / blocks / across / down, rows_.first + row,
                             std::min(rows_.size, rows_.count - row), columns_.first + column,
                             std::min(columns_.size, columns_.count - column)};
               if (into_result_)
                 Many(x, w, bias, y, s, block * kBundlesOfCopy,
                      std::min(bundles(), (block + 1) * kBundlesOfCopy));
               else
                 Few(x, w, bias, y, s);
             }
           });
}

}  // namespace infer
