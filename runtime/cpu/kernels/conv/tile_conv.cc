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
/// Costs of a tile and of each run of weights beside their rows, in rows.
constexpr double kRowsOfTile = 6, kRowsOfRun = 1;
constexpr int64_t kCopyPixels = 64;     ///< that are copied at once
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
  t.ChooseTaps(s, transposed, src, dst);
  t.Cut();
  return t;
}

/// Which axes have their padding written out. Each axis that has splits the results into fewer sets
/// of points, but also multiplies zeros.
void TileConv::ChooseTaps(Spatial s, bool transposed, const Dims& src, const Dims& dst) {
  const size_t n = s.kernel.size(), missing = 3 - n;
  std::copy(src.begin() + 2, src.end(), from_.begin() + static_cast<std::ptrdiff_t>(missing));
  const TileConv plain = *this;
  double least = 0;
  for (unsigned axes = 0; axes < (transposed ? 1u : 1u << n); ++axes) {
    TileConv t = plain;
    t.copy_ = from_;
    Dims extents = src;
    Spatial padded = s;
    bool differs = axes == 0;
    for (size_t i = 0; i < n; ++i) {
      if (!(axes >> i & 1)) continue;
      const int64_t reach = (s.kernel[i] - 1) * s.dilations[i] + 1;
      extents[i + 2] = (dst[i + 2] - 1) * s.strides[i] + reach;
      t.copy_[missing + i] = extents[i + 2];
      t.before_[missing + i] = s.pads_begin[i];
      padded.pads_begin[i] = 0;
      differs |= s.pads_begin[i] > 0 || extents[i + 2] > src[i + 2];
    }
    if (!differs) continue;
    t.is_padded_ = axes != 0;
    // A copy has group beside group, so that neighbouring taps are neighbours in memory.
    const int64_t pixels = t.copy_[0] * t.copy_[1] * t.copy_[2];
    t.pixel_floats_ = t.copies() ? channels_ : src[1];
    t.group_floats_ = t.copies() ? images_ * pixels * channels_ : channels_;
    t.taps_of_ = std::make_shared<const SameTaps>(
        SameTaps::Of(padded, transposed, extents, dst, channels_, t.pixel_floats_));
    const double cost = t.CostOf(*t.taps_of_);
    if (axes > 0 && cost >= least) continue;
    least = cost;
    *this = t;
  }
}

/// Rows of weights that tiles meet, and what copying costs beside.
double TileConv::CostOf(const SameTaps& taps) const {
  const int64_t tile = loop_->points(vectors(0));
  double sum = 0;
  for (const TapSet& set : taps.sets()) {
    double rows = kRowsOfTile;
    for (const int64_t length : set.length) rows += static_cast<double>(length) + kRowsOfRun;
    sum += rows * static_cast<double>(BlocksOf(set.points, tile) * tile);
  }
  sum *= static_cast<double>(panels() * groups_);
  const int64_t copied = copies() ? copy_[0] * copy_[1] * copy_[2] : 0;
  return sum + static_cast<double>(copied * images_ * channels_ * groups_);
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
  auto buffer = Buffer::Allocate(static_cast<size_t>(groups_ * rows * padded()) * sizeof(float));
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

int64_t TileConv::scratch_bytes() const { return copies() ? group_floats_ * groups_ * 4 : 0; }

/// [group][image][plane][row][column][channel], zeros around.
void TileConv::Copy(const float* x, float* to) const {
  const int64_t rows = images_ * groups_ * copy_[0] * copy_[1];
  const int64_t blocks = BlocksOf(copy_[2], kCopyPixels);
  ForRange(rows * blocks,
           std::max<int64_t>(1, 16384 / (std::min(copy_[2], kCopyPixels) * channels_)),
           [&](int64_t begin, int64_t end) {
             for (int64_t i = begin; i < end; ++i)
               CopyPart(x, i / blocks, i % blocks * kCopyPixels, to);
           });
}

/// Columns [first, first + kCopyPixels) of a row of the copy.
void TileConv::CopyPart(const float* x, int64_t row, int64_t first, float* to) const {
  const int64_t count = std::min(kCopyPixels, copy_[2] - first);
  float* const d = to + (row * copy_[2] + first) * channels_;
  const int64_t i = row % copy_[1] - before_[1], plane = row / copy_[1] % copy_[0] - before_[0];
  const int64_t at = row / copy_[1] / copy_[0], image = at % images_, g = at / images_;
  const bool outside = i < 0 || i >= from_[1] || plane < 0 || plane >= from_[0];
  // Columns of the operand, and where they begin in this part.
  const int64_t left = std::clamp<int64_t>(before_[2] - first, 0, count);
  const int64_t inside =
      outside ? 0 : std::clamp<int64_t>(before_[2] + from_[2] - first - left, 0, count - left);
  if (inside == 0) return void(std::fill_n(d, count * channels_, 0.0f));
  std::fill_n(d, left * channels_, 0.0f);
  std::fill_n(d + (left + inside) * channels_, (count - left - inside) * channels_, 0.0f);
  const int64_t pixel = (plane * from_[1] + i) * from_[2] + first + left - before_[2];
  CopyPixels(x, image, g, pixel, inside, d + left * channels_);
}

void TileConv::CopyPixels(const float* x, int64_t image, int64_t g, int64_t pixel, int64_t count,
                          float* to) const {
  const auto bytes = [](int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); };
  const int64_t all = channels_ * groups_, lanes = loop_->lanes;
  const float* const first = x + (image * all + g * channels_) * in_;
  switch (form_) {
    case ConvForm::kPlain:
      return loop_->transpose(first + pixel, in_, channels_, count, to, channels_);
    case ConvForm::kBlocks:
      for (int64_t c = 0; c < channels_; c += lanes)
        for (int64_t p = 0; p < count; ++p)
          std::memcpy(to + p * channels_ + c, first + c * in_ + (pixel + p) * lanes, bytes(lanes));
      return;
    case ConvForm::kLast:
      for (int64_t p = 0; p < count; ++p)
        std::memcpy(to + p * channels_, x + (image * in_ + pixel + p) * all + g * channels_,
                    bytes(channels_));
  }
}

/// Of one chunk: where points read, where they go.
struct TileConv::Place {
  const TapSet* set;
  int64_t count;
  int64_t panel, points;               ///< points: with those that fill the last tile
  int64_t x_at[kChunk], y_at[kChunk];  ///< floats, of channel and result 0
  /// Points [runs[i], runs[i + 1]) stand equally far apart in the result.
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
  for (int64_t p = 0; p < chunk.count; ++p) {
    place.x_at[p] *= pixel_floats_;
    place.y_at[p] = At(place.y_at[p]);
  }
  place.run_count = 0;
  for (int64_t p = 0; p < chunk.count;) {
    place.runs[place.run_count++] = p;
    const int64_t begin = p++;
    while (p < chunk.count &&
           place.y_at[p] - place.y_at[p - 1] == place.y_at[begin + 1] - place.y_at[begin])
      ++p;
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
    if (!Direct(panel))
      form_ == ConvForm::kPlain ? DeliverPlain(place, sums) : Deliver(place, sums);
  }
}

/// Whether a panel's sums are kept in the result.
bool TileConv::Direct(int64_t panel) const {
  return form_ != ConvForm::kPlain && appended_.in_product() && results(panel) % loop_->lanes == 0;
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
      const int64_t step = length > 1 ? place.y_at[first + 1] - place.y_at[first] : 1;
      if (step == 1)
        for (int64_t i = 0; i < length; ++i) f(from[i], to[i]);
      else
        for (int64_t i = 0; i < length; ++i) f(from[i], to[i * step]);
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
