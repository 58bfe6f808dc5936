#include "runtime/cpu/kernels/int8/pair_product.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// Tiles of rows that are multiplied by one panel before the next is read.
constexpr int64_t kTilesOfBlock = 8;
/// Multiplications below which another lane does not pay.
constexpr int64_t kPairGrain = 1 << 19;

/// Three axes, ones ahead.
Dims AsVolume(const Dims& dims, int64_t fill) {
  Dims out(3 - dims.size(), fill);
  out.insert(out.end(), dims.begin(), dims.end());
  return out;
}

int64_t BytesOf(simd::AfterSum::Type t) {
  return t == simd::AfterSum::Type::kF32 || t == simd::AfterSum::Type::kI32 ? 4 : 1;
}

/// Panels of one column a lane, each weight in 16 bits with a zero behind it. at(n, tap).
template <typename F>
std::shared_ptr<const Buffer> PackChannels(const PairProduct& p, const F& at) {
  const int64_t taps = p.taps(), step = p.width();
  auto buffer =
      Buffer::Allocate(static_cast<size_t>(p.panels() * taps * step * 2) * sizeof(int16_t));
  int16_t* to = reinterpret_cast<int16_t*>(buffer->mutable_data());
  for (int64_t panel = 0; panel < p.panels(); ++panel)
    for (int64_t t = 0; t < taps; ++t)
      for (int64_t j = 0; j < step; ++j) {
        *to++ = j < p.columns_of(panel) ? at(p.first_column(panel) + j, t) : int16_t{0};
        *to++ = 0;
      }
  return buffer;
}

}  // namespace

std::shared_ptr<const Buffer> PairProduct::PackWide(const int16_t* w, int64_t n_stride) const {
  return PackChannels(*this, [&](int64_t n, int64_t tap) { return w[n * n_stride + tap]; });
}

std::shared_ptr<const Buffer> PairProduct::Pack(const int8_t* w, int64_t n_stride,
                                                int64_t c_stride) const {
  const int64_t taps_in_all = taps(), numbers = run(), step = width();
  const int64_t channels = depth / groups, inner = merged() ? window[2] : 1;
  Dims stretch;  // where the numbers of a tap stand
  for (int64_t k = 0; k < numbers; ++k) stretch.push_back(k % channels * c_stride + k / channels);
  const auto at = [&](int64_t n, int64_t tap, int64_t k) {
    return w[n * n_stride + tap * inner + stretch[static_cast<size_t>(k)]];
  };
  if (depthwise())
    return PackChannels(*this, [&](int64_t n, int64_t tap) { return int16_t{at(n, tap, 0)}; });
  const int64_t pairs_of_tap = (numbers + 1) / 2;
  auto buffer =
      Buffer::Allocate(static_cast<size_t>(panels() * taps_in_all * pairs_of_tap * step * 2));
  int8_t* to = reinterpret_cast<int8_t*>(buffer->mutable_data());
  for (int64_t p = 0; p < panels(); ++p)
    for (int64_t t = 0; t < taps_in_all; ++t)
      for (int64_t pair = 0; pair < pairs_of_tap; ++pair)
        for (int64_t j = 0; j < step; ++j)
          for (int64_t k = 2 * pair; k < 2 * pair + 2; ++k)
            *to++ = j < columns_of(p) && k < numbers ? at(first_column(p) + j, t, k) : int8_t{0};
  return buffer;
}

Result<PlacedPairs> PlacedPairs::Make(const PairProduct& product, int64_t images, const Dims& src,
                                      const Dims& dst, const Spatial& spatial) {
  PlacedPairs p;
  p.product = product;
  p.images = images;
  p.image = AsVolume(src, 1);
  p.pads = AsVolume(spatial.pads_begin, 0);
  const Dims ends = AsVolume(spatial.pads_end, 0), strides = AsVolume(spatial.strides, 1);
  for (size_t i = 0; i < 3; ++i) p.padded.push_back(p.image[i] + p.pads[i] + ends[i]);
  const int64_t c = product.depth;
  if (static_cast<double>(p.padded[0]) * static_cast<double>(p.padded[1]) *
          static_cast<double>(p.padded[2]) * static_cast<double>(c) >
      std::numeric_limits<int32_t>::max())
    return Unsupported("the image is too large");
  const auto offset = [&](int64_t d, int64_t h, int64_t w) {
    return static_cast<int32_t>(((d * p.padded[1] + h) * p.padded[2] + w) * c);
  };
  const Dims out = AsVolume(dst, 1);
  for (int64_t d = 0; d < out[0]; ++d)
    for (int64_t h = 0; h < out[1]; ++h)
      for (int64_t w = 0; w < out[2]; ++w)
        p.rows.push_back(offset(d * strides[0], h * strides[1], w * strides[2]));
  const Dims& window = product.window;
  for (int64_t d = 0; d < window[0]; ++d)
    for (int64_t h = 0; h < window[1]; ++h)
      for (int64_t w = 0; w < (product.merged() ? 1 : window[2]); ++w)
        p.taps.push_back(
            offset(d * product.dilations[0], h * product.dilations[1], w * product.dilations[2]));
  return p;
}

int64_t PlacedPairs::scratch_bytes() const {
  // Behind the last pixel the last tap reads up to a vector.
  return (NumElements(padded) * product.depth + 64) * static_cast<int64_t>(sizeof(int16_t));
}

void PlacedPairs::Widen(const std::byte* x, int32_t zero, int16_t* to) const {
  const int64_t c = product.depth, line = image[2] * c;
  // Numbers `from` .. from + n - 1 of the widened image.
  const auto widen = [&](int64_t from, int16_t* y, int64_t n) {
    if (product.repeat > 1) {
      // At the end of their place first; what is written never passes what is still to be read.
      const int64_t own = n / product.repeat;
      int16_t* const last = y + n - own;
      if (product.is_signed)
        product.pairs->widen_s8(As<int8_t>(x) + from / product.repeat, last, own, zero);
      else
        product.pairs->widen_u8(As<uint8_t>(x) + from / product.repeat, last, own, zero);
      for (int64_t i = 0; i < own; ++i) {
        const int16_t number = last[i];
        for (int64_t k = 0; k < product.repeat; ++k) y[i * product.repeat + k] = number;
      }
      return;
    }
    if (product.is_signed)
      product.pairs->widen_s8(As<int8_t>(x) + from, y, n, zero);
    else
      product.pairs->widen_u8(As<uint8_t>(x) + from, y, n, zero);
  };
  if (padded == image) {
    ForRange(
        NumElements(image), std::max<int64_t>(1, kPairGrain / 8 / c),
        [&](int64_t begin, int64_t end) { widen(begin * c, to + begin * c, (end - begin) * c); });
    return;
  }
  const auto zeros = [](int16_t* y, int64_t n) {
    std::memset(y, 0, static_cast<size_t>(n) * sizeof(int16_t));
  };
  const int64_t padded_line = padded[2] * c;
  ForRange(padded[0] * padded[1], std::max<int64_t>(1, kPairGrain / 8 / padded_line),
           [&](int64_t begin, int64_t end) {
             for (int64_t i = begin; i < end; ++i) {
               const int64_t d = i / padded[1] - pads[0], h = i % padded[1] - pads[1];
               int16_t* y = to + i * padded_line;
               if (d < 0 || d >= image[0] || h < 0 || h >= image[1]) {
                 zeros(y, padded_line);
                 continue;
               }
               zeros(y, pads[2] * c);
               widen((d * image[1] + h) * line, y + pads[2] * c, line);
               zeros(y + pads[2] * c + line, padded_line - pads[2] * c - line);
             }
           });
}

void PlacedPairs::Tiles(const simd::AfterSum& after, const int16_t* image_at, const std::byte* w,
                        const std::byte* other, std::byte* y, int64_t panel, int64_t first,
                        int64_t count) const {
  const PairProduct& p = product;
  const int64_t column = p.first_column(panel);
  const int64_t bytes = BytesOf(after.type);
  const auto call = [&](auto shared) {
    shared.taps = taps.data();
    shared.tap_count = static_cast<int64_t>(taps.size());
    shared.after = &after;
    shared.column = panel * p.width();
    shared.columns = p.columns_of(panel);
    shared.stride = p.columns;
    return shared;
  };
  const auto sweep = [&](auto c, auto multiply) {
    for (int64_t i = 0; i < count; i += p.pairs->max_rows) {
      const int64_t at = (first + i) * p.columns + column;
      c.rows = rows.data() + first + i;
      c.y = y + at * bytes;
      if (other) c.other = other + at;
      multiply(static_cast<int>(std::min<int64_t>(p.pairs->max_rows, count - i)), c);
    }
  };
  if (p.depthwise()) {
    simd::ChannelsCall c = call(simd::ChannelsCall());
    c.a = image_at + column;
    c.b = As<int16_t>(w) + panel * c.tap_count * p.width() * 2;
    sweep(c, p.pairs->multiply_channels);
    return;
  }
  simd::PairsCall c = call(simd::PairsCall());
  c.a = image_at + panel / p.panels_of_group() * (p.depth / p.groups);
  c.pairs = (p.run() + 1) / 2;
  c.b = As<int8_t>(w) + panel * c.tap_count * c.pairs * p.width() * 2;
  sweep(c, p.pairs->multiply);
}

int32_t PlacedPairs::RowSum(const int16_t* image_at, int64_t row, int64_t group) const {
  const int64_t numbers = product.run();
  const int16_t* const from =
      image_at + rows[static_cast<size_t>(row)] + group * (product.depth / product.groups);
  int32_t sum = 0;
  for (const int32_t tap : taps)
    for (int64_t k = 0; k < numbers; ++k) sum += from[tap + k];
  return sum;
}

void PlacedPairs::Run(const std::byte* x, const std::byte* w, const std::byte* other, std::byte* y,
                      std::byte* scratch, const OfRun& run) const {
  int16_t* wide = As<int16_t>(scratch);
  const auto pixels = static_cast<int64_t>(rows.size());
  const int64_t panels = product.panels(), block = kTilesOfBlock * product.pairs->max_rows;
  const int64_t blocks = (pixels + block - 1) / block;
  const int64_t work =
      block * product.width() * product.taps() * (product.depthwise() ? 1 : product.run());
  const int64_t in_bytes = NumElements(image) * product.depth / product.repeat;
  const int64_t bytes = BytesOf(run.after.type);
  for (int64_t n = 0; n < images; ++n) {
    Widen(x + n * in_bytes, run.zero, wide);
    const int64_t at = n * pixels * product.columns;
    ForRange(blocks * panels, std::max<int64_t>(1, kPairGrain / work), [&](int64_t u, int64_t end) {
      for (; u < end; ++u) {
        const int64_t first = u / panels * block;
        Tiles(run.after, wide, w, other ? other + at : nullptr, y + at * bytes, u % panels, first,
              std::min(block, pixels - first));
      }
    });
    if (!run.on_row) continue;
    const int64_t numbers = product.taps() * product.run() + product.group_columns();
    ForRange(pixels * product.groups, std::max<int64_t>(1, kPairGrain / 8 / numbers),
             [&](int64_t u, int64_t end) {
               for (; u < end; ++u) {
                 const int64_t row = u / product.groups, group = u % product.groups;
                 (*run.on_row)(n* pixels + row, group, RowSum(wide, row, group));
               }
             });
  }
}

}  // namespace infer
