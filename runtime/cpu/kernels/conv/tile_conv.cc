#include "runtime/cpu/kernels/conv/tile_conv.h"

#include <algorithm>
#include <cstring>

#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// Points that meet a panel of weights before the next panel: a multiple of all tiles' points.
constexpr int64_t kChunk = 48;
constexpr int64_t kWidest = 32;  ///< results of a panel, on any instruction set
/// Where there are fewer chunks, lanes take panels apart, too.
constexpr int64_t kFewChunks = 16, kMostShares = 8;
constexpr int64_t kCopyPixels = 64;  ///< that are copied at once
constexpr int64_t kWorkOfLane = 65536;  ///< multiplications

}  // namespace

TileConv TileConv::Of(const Spatial& s, bool transposed, int64_t groups, const Dims& src,
                      const Dims& dst, const Appended& appended, ConvForm form) {
  TileConv t;
  t.loop_ = &simd::TheTiles();
  t.appended_ = appended;
  t.form_ = form;
  t.images_ = src[0];
  t.groups_ = groups;
  t.channels_ = src[1] / groups;
  t.of_group_ = dst[1] / groups;
  t.in_ = NumElements(src) / (src[0] * src[1]);
  t.out_ = NumElements(dst) / (dst[0] * dst[1]);
  t.taps_ = NumElements(s.kernel);
  // A copy has group beside group, so that neighbouring taps are neighbours in memory.
  t.pixel_floats_ = t.copies() ? t.channels_ : src[1];
  t.group_floats_ = t.copies() ? t.images_ * t.in_ * t.channels_ : t.channels_;
  t.taps_of_ = std::make_shared<const SameTaps>(
      SameTaps::Of(s, transposed, src, dst, t.channels_, t.pixel_floats_));
  t.Cut();
  return t;
}

void TileConv::Cut() {
  for (const TapSet& set : taps_of_->sets())
    for (int64_t first = 0; first < set.points; first += kChunk)
      chunks_.push_back({&set, first, std::min(kChunk, set.points - first)});
  if (std::ssize(chunks_) < kFewChunks) shares_ = std::min(groups_ * panels(), kMostShares);
}

int64_t TileConv::padded() const {
  return (panels() - 1) * width() + vectors(panels() - 1) * int64_t{loop_->lanes};
}

std::shared_ptr<const Buffer> TileConv::Pack(const Tensor& w, bool transposed) const {
  const int64_t rows = taps_ * channels_;
  auto buffer =
      Buffer::Allocate(static_cast<size_t>(groups_ * rows * padded()) * sizeof(float));
  float* to = As<float>(buffer->mutable_data());
  const float* const from = w.data<float>().data();
  const int64_t channel = transposed ? of_group_ * taps_ : taps_;
  const int64_t result = transposed ? taps_ : channels_ * taps_;
  for (int64_t g = 0; g < groups_; ++g)
    for (int64_t panel = 0; panel < panels(); ++panel) {
      const float* const first =
          from + g * channels_ * of_group_ * taps_ + panel * width() * result;
      const int64_t wide = vectors(panel) * int64_t{loop_->lanes};
      for (int64_t t = 0; t < taps_; ++t)
        for (int64_t c = 0; c < channels_; ++c, to += wide)
          for (int64_t o = 0; o < wide; ++o)
            to[o] = o < results(panel) ? first[o * result + c * channel + t] : 0.0f;
    }
  return buffer;
}

std::shared_ptr<const Buffer> TileConv::PackBias(const Tensor& bias) const {
  auto buffer = Buffer::Allocate(static_cast<size_t>(groups_ * padded()) * sizeof(float));
  float* const to = As<float>(buffer->mutable_data());
  std::fill_n(to, groups_ * padded(), 0.0f);
  for (int64_t g = 0; g < groups_; ++g)
    std::copy_n(bias.data<float>().data() + g * of_group_, of_group_, to + g * padded());
  return buffer;
}

int64_t TileConv::scratch_bytes() const {
  return copies() ? images_ * in_ * channels_ * groups_ * 4 : 0;
}

/// [group][image][pixel][channel].
void TileConv::Copy(const float* x, float* to) const {
  const int64_t blocks = BlocksOf(in_, kCopyPixels);
  ForRange(images_ * groups_ * blocks, std::max<int64_t>(1, 16384 / (kCopyPixels * channels_)),
           [&](int64_t begin, int64_t end) {
             for (int64_t i = begin; i < end; ++i) {
               const int64_t image = i / blocks % images_, g = i / blocks / images_;
               const int64_t first = i % blocks * kCopyPixels;
               const int64_t count = std::min(kCopyPixels, in_ - first);
               const float* const from = x + (image * groups_ + g) * channels_ * in_;
               float* const d = to + ((g * images_ + image) * in_ + first) * channels_;
               if (form_ == ConvForm::kPlain) {
                 loop_->transpose(from + first, in_, channels_, count, d, channels_);
                 continue;
               }
               const int64_t lanes = loop_->lanes;
               for (int64_t c = 0; c < channels_; c += lanes)
                 for (int64_t p = 0; p < count; ++p)
                   std::memcpy(d + p * channels_ + c, from + c * in_ + (first + p) * lanes,
                               static_cast<size_t>(lanes) * sizeof(float));
             }
           });
}

/// Of one chunk: where points read, where they go.
struct TileConv::Place {
  const TapSet* set;
  int64_t count;
  int64_t panel, points;  ///< points: with those that fill the last tile
  int64_t x_at[kChunk], y_at[kChunk];  ///< floats, of channel and result 0
  /// Where results of a channel stand side by side: points [runs[i], runs[i + 1]).
  int64_t runs[kChunk + 1], run_count;
  float* y;  ///< of the panel's first result
  const float* x[kChunk];
  float* d[kChunk];
};

void TileConv::Run(const float* x, const float* w, const float* bias, float* y,
                   float* scratch) const {
  if (copies()) {
    Copy(x, scratch);
    x = scratch;
  }
  const int64_t all = groups_ * panels(), n = std::ssize(chunks_);
  const int64_t work = taps_of_->work() * padded() * groups_ / (n * shares_) + 1;
  ForRange(n * shares_, std::max<int64_t>(1, kWorkOfLane / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t share = i / n;
      Compute(chunks_[static_cast<size_t>(i % n)], all * share / shares_,
              all * (share + 1) / shares_, x, w, bias, y);
    }
  });
}

/// Floats from the first result of a pixel of the result, whose image is `image`.
int64_t TileConv::At(int64_t pixel) const {
  if (form_ == ConvForm::kLast) return pixel * of_group_ * groups_;
  const int64_t image = images_ == 1 ? 0 : pixel / out_;
  return image * of_group_ * groups_ * out_ +
         (pixel - image * out_) * (form_ == ConvForm::kPlain ? 1 : loop_->lanes);
}

void TileConv::Find(const Chunk& chunk, Place& place) const {
  place.set = chunk.set;
  place.count = chunk.count;
  taps_of_->Pixels(*chunk.set, chunk.first, chunk.count, place.x_at, place.y_at);
  place.run_count = 0;
  for (int64_t p = 0; p < chunk.count; ++p) {
    place.x_at[p] *= pixel_floats_;
    place.y_at[p] = At(place.y_at[p]);
    if (p == 0 || place.y_at[p] != place.y_at[p - 1] + 1) place.runs[place.run_count++] = p;
  }
  place.runs[place.run_count] = chunk.count;
}

/// Panels [begin, end) of all groups.
void TileConv::Compute(const Chunk& chunk, int64_t begin, int64_t end, const float* x,
                       const float* w, const float* bias, float* y) const {
  Place place;
  Find(chunk, place);
  alignas(64) float sums[kChunk * kWidest];
  const int64_t rows = taps_ * channels_;
  const auto of = [&](int64_t p) { return std::min(p, chunk.count - 1); };
  for (int64_t i = begin; i < end; ++i) {
    const int64_t g = i / panels(), panel = i % panels();
    const int64_t tile = loop_->points(vectors(panel));
    const int64_t wide = vectors(panel) * int64_t{loop_->lanes};
    const bool another_group = i == begin || panel == 0;
    const bool another_width = another_group || panel == panels() - 1;
    place.panel = panel;
    place.points = BlocksOf(chunk.count, tile) * tile;
    place.y = y + (g * of_group_ + panel * width()) * (form_ == ConvForm::kLast ? 1 : out_);
    if (another_width)
      for (int64_t p = 0; p < place.points; ++p)
        place.x[p] = x + place.x_at[of(p)] + g * group_floats_;
    if (Direct(panel))
      for (int64_t p = 0; p < place.points; ++p) place.d[p] = place.y + place.y_at[of(p)];
    else if (another_width)
      for (int64_t p = 0; p < place.points; ++p) place.d[p] = sums + of(p) * wide;
    const int64_t at = g * padded() + panel * width();
    Panel(place, w + at * rows, bias ? bias + at : nullptr);
    if (!Direct(panel)) form_ == ConvForm::kPlain ? DeliverPlain(place, sums) : Deliver(place, sums);
  }
}

/// Whether a panel's sums are kept in the result.
bool TileConv::Direct(int64_t panel) const {
  return form_ != ConvForm::kPlain && appended_.in_product() &&
         results(panel) % loop_->lanes == 0;
}

void TileConv::Panel(const Place& place, const float* w, const float* bias) const {
  const TapSet& set = *place.set;
  const bool residual = appended_.residual >= 0, direct = Direct(place.panel);
  simd::TileCall call;
  call.vectors = vectors(place.panel);
  call.x = place.x;
  call.d = place.d;
  call.d_vector = direct && form_ == ConvForm::kBlocks ? out_ * loop_->lanes : loop_->lanes;
  call.points = place.points;
  call.w = w;
  call.start = bias;
  call.add = direct && residual;
  for (size_t part = 0; part + 1 < set.parts.size(); ++part) {
    const auto first = static_cast<size_t>(set.parts[part]);
    call.x_at = set.x_at.data() + first;
    call.w_at = set.w_at.data() + first;
    call.length = set.length.data() + first;
    call.runs = set.parts[part + 1] - set.parts[part];
    if (appended_.clamps() && (direct || !residual) && part + 2 == set.parts.size()) {
      call.lo = appended_.function->a;
      call.hi = appended_.function->b;
    }
    loop_->multiply(call);
    call.start = nullptr;
    call.add = true;
  }
}

/// Sums of a panel to the result, with what is appended.
void TileConv::Deliver(const Place& place, float* tile) const {
  const int64_t lanes = loop_->lanes, n = results(place.panel);
  const int64_t wide = vectors(place.panel) * lanes;
  const bool residual = appended_.residual >= 0;
  const int64_t to_vector = form_ == ConvForm::kBlocks ? out_ * lanes : lanes;
  const auto for_all = [&](const auto& f) {
    for (int64_t p = 0; p < place.count; ++p)
      for (int64_t v = 0; v < n; v += lanes)
        for (int64_t o = 0; o < std::min(lanes, n - v); ++o)
          f(tile[p * wide + v + o], place.y[place.y_at[p] + v / lanes * to_vector + o]);
  };
  if (residual && !appended_.residual_last) for_all([](float& sum, float y) { sum += y; });
  if (appended_.function && (residual || !appended_.clamps()))
    appended_.Apply(tile, place.count * wide);
  if (residual && appended_.residual_last)
    for_all([](float sum, float& y) { y += sum; });
  else
    for_all([](float sum, float& y) { y = sum; });
}

/// The same where a result's pixels stand side by side.
void TileConv::DeliverPlain(const Place& place, const float* tile) const {
  alignas(64) float turned[kWidest * kChunk];
  const int64_t n = results(place.panel), count = place.count;
  loop_->transpose(tile, vectors(place.panel) * int64_t{loop_->lanes}, count, n, turned, kChunk);
  const bool residual = appended_.residual >= 0;
  const bool applies = appended_.function && (residual || !appended_.clamps());
  const auto for_all = [&](float* sums, int64_t result, const auto& f) {
    float* const y = place.y + result * out_;
    for (int64_t r = 0; r < place.run_count; ++r) {
      const int64_t first = place.runs[r], length = place.runs[r + 1] - first;
      float *const from = sums + first, *const to = y + place.y_at[first];
      for (int64_t i = 0; i < length; ++i) f(from[i], to[i]);
    }
  };
  for (int64_t o = 0; o < n; ++o) {
    float* const sums = turned + o * kChunk;
    if (residual && !appended_.residual_last)
      for_all(sums, o, [](float& sum, float y) { sum += y; });
    if (applies) appended_.Apply(sums, count);
    if (residual && appended_.residual_last)
      for_all(sums, o, [](float sum, float& y) { y += sum; });
    else
      for_all(sums, o, [](float sum, float& y) { y = sum; });
  }
}

}  // namespace infer
