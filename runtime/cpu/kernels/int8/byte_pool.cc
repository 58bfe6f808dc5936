#include "runtime/cpu/kernels/int8/byte_pool.h"

#include <algorithm>

#include "lib/ops/conv/conv_geometry.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/int8/byte_mean.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

constexpr int64_t kPoolGrain = 1 << 15;

/// Windows of up to three spatial axes over images with their channels last.
struct AverageWindows {
  ByteMean mean;
  int64_t images = 1, channels = 1;
  bool with_padding = false;
  Dims image = {1, 1, 1};
  std::vector<WindowSpan> spans[3];  ///< of each result along each axis

  int64_t results() const {
    return static_cast<int64_t>(spans[0].size() * spans[1].size() * spans[2].size());
  }
  int64_t taps() const {
    int64_t n = 1;
    for (const auto& s : spans) n *= s[s.size() / 2].count;
    return n;
  }

  /// Results begin .. end - 1 of all images.
  void Run(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const {
    const auto across = static_cast<int64_t>(spans[2].size());
    const auto down = static_cast<int64_t>(spans[1].size());
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / results(), at = i % results();
      const WindowSpan* const window[3] = {&spans[0][static_cast<size_t>(at / (across * down))],
                                           &spans[1][static_cast<size_t>(at / across % down)],
                                           &spans[2][static_cast<size_t>(at % across)]};
      Pixel(from + n * NumElements(image) * channels, window, to + i * channels);
    }
  }

 private:
  void Pixel(const std::byte* from, const WindowSpan* const (&w)[3], std::byte* to) const {
    const int64_t elements = w[0]->count * w[1]->count * w[2]->count;
    const int64_t divisor =
        with_padding ? w[0]->padded_count * w[1]->padded_count * w[2]->padded_count : elements;
    for (int64_t c = 0; c < channels; c += ByteMean::kTile) {
      const int64_t n = std::min(ByteMean::kTile, channels - c);
      uint32_t sums[ByteMean::kTile] = {};
      EachRow(w, [&](int64_t pixel) {
        simd::TheByteSums().columns(As<uint8_t>(from + pixel * channels + c), w[2]->count,
                                    w[2]->step * channels, n, mean.flip(), sums);
      });
      mean.Write(sums, n, elements, divisor, to + c, [&](int64_t i) {
        double sum = 0;
        EachRow(w, [&](int64_t pixel) {
          for (int64_t x = 0; x < w[2]->count; ++x)
            sum += mean.Real(from[(pixel + x * w[2]->step) * channels + c + i]);
        });
        return sum;
      });
    }
  }

  /// `row(pixel)` for the first pixel of each row of the window.
  template <typename Row>
  void EachRow(const WindowSpan* const (&w)[3], Row row) const {
    for (int64_t d = 0; d < w[0]->count; ++d)
      for (int64_t h = 0; h < w[1]->count; ++h)
        row(((w[0]->first + d * w[0]->step) * image[1] + w[1]->first + h * w[1]->step) * image[2] +
            w[2]->first);
  }
};

}  // namespace

Result<Prepared> PrepareByteAverage(const ByteAverage& average, const Node& node,
                                    std::span<const Operand> in, const Operand& out) {
  const Operand& x = in[static_cast<size_t>(average.x)];
  if (x.dims.size() < 3 || x.dims.size() > 5) return Unsupported("rank");
  const size_t first = average.channels_last ? 1 : 2, spatial = x.dims.size() - 2;
  AverageWindows w{ByteMean(average.from, average.to, average.rounds_last)};
  w.images = x.dims[0];
  w.channels = average.channels_last ? x.dims.back() : x.dims[1];
  w.with_padding = node.Attr<int64_t>("count_include_pad") != 0;
  const auto begin = x.dims.begin() + static_cast<int64_t>(first);
  const Dims extents(begin, begin + static_cast<int64_t>(spatial));
  INFER_ASSIGN(Window window, ReadWindow(node.def(), node.attrs(), static_cast<int>(spatial)));
  window = ResolvePads(std::move(window), extents);
  for (std::vector<WindowSpan>& spans : w.spans) spans.assign(1, {0, 1, 1, 1});
  for (size_t i = 0; i < spatial; ++i) {
    const size_t axis = 3 - spatial + i;
    w.image[axis] = extents[i];
    w.spans[axis].clear();
    for (int64_t o = 0; o < out.dims[first + i]; ++o)
      w.spans[axis].push_back(WindowSpan::Of(window.axes[i], extents[i], o));
    for (const WindowSpan& s : w.spans[axis])
      if (s.count <= 0) return Unsupported("a window lies in the padding");
  }
  if (w.taps() >= simd::kByteSumLimit) return Unsupported("a window of over 16 million elements");
  Prepared p;
  p.name = Cat("own:", simd::TheLoops().isa);
  p.unused.assign(in.size(), true);
  p.unused[static_cast<size_t>(average.x)] = false;
  p.in_layouts.resize(in.size());
  if (!average.channels_last) {
    p.in_layouts[static_cast<size_t>(average.x)] = onednn::ChannelsLast(x.dtype, x.dims);
    p.out_layouts = {onednn::ChannelsLast(out.dtype, out.dims)};
  }
  const size_t y = in.size();
  p.launch = LaunchOf([=, at = average.x](std::byte* const* args) {
    ForRange(w.images * w.results(),
             std::max<int64_t>(1, kPoolGrain / std::max<int64_t>(1, w.channels * w.taps())),
             [&](int64_t b, int64_t e) { w.Run(args[at], args[y], b, e); });
  });
  return p;
}

}  // namespace infer
