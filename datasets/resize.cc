#include "datasets/resize.h"

#include <algorithm>
#include <cmath>

namespace infer {
namespace {

double Bilinear(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

/// Keys, "Cubic convolution interpolation for digital image processing", 1981, with a = -0.5.
double Bicubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

/// The inputs that one output pixel reads and their weights, which add up to 2^22.
struct Tap {
  int64_t first = 0;
  std::vector<int32_t> weights;
};
constexpr int kBits = 22;

/// Output i has its centre at (i + 0.5) * in / out; the filter is stretched by the same factor when
/// shrinking.
std::vector<Tap> MakeTaps(int64_t in, int64_t out, Preprocess::Interp interp) {
  const double ratio = static_cast<double>(in) / static_cast<double>(out);
  std::vector<Tap> taps(static_cast<size_t>(out));
  const bool nearest = interp == Preprocess::Interp::kNearest;
  const bool cubic = interp == Preprocess::Interp::kBicubic;
  const double stretch = std::max(ratio, 1.0), support = (cubic ? 2.0 : 1.0) * stretch;
  for (int64_t i = 0; i < out; ++i) {
    Tap& tap = taps[static_cast<size_t>(i)];
    const double centre = (static_cast<double>(i) + 0.5) * ratio;
    if (nearest) {
      tap = {std::min(static_cast<int64_t>(centre), in - 1), {1 << kBits}};
      continue;
    }
    // NOLINTBEGIN(bugprone-incorrect-roundings): as Pillow rounds
    tap.first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const int64_t last = std::min(static_cast<int64_t>(centre + support + 0.5), in);
    // NOLINTEND(bugprone-incorrect-roundings)
    std::vector<double> w;
    double sum = 0;
    for (int64_t x = tap.first; x < last; ++x) {
      const double d = (static_cast<double>(x) - centre + 0.5) / stretch;
      w.push_back(cubic ? Bicubic(d) : Bilinear(d));
      sum += w.back();
    }
    for (const double v : w)
      tap.weights.push_back(static_cast<int32_t>(std::lround(v / sum * (1 << kBits))));
  }
  return taps;
}

uint8_t Round(int64_t sum) {
  return static_cast<uint8_t>(std::clamp<int64_t>((sum + (1 << (kBits - 1))) >> kBits, 0, 255));
}

/// [outer, n, inner] -> [outer, taps.size(), inner].
void Filter(const uint8_t* in, uint8_t* out, int64_t outer, int64_t n, int64_t inner,
            const std::vector<Tap>& taps) {
  std::vector<int64_t> sums(static_cast<size_t>(inner));
  for (int64_t o = 0; o < outer; ++o) {
    for (const Tap& tap : taps) {
      std::fill(sums.begin(), sums.end(), 0);
      const uint8_t* row = in + (o * n + tap.first) * inner;
      for (const int32_t w : tap.weights) {
        for (size_t c = 0; c < sums.size(); ++c) sums[c] += int64_t{row[c]} * w;
        row += inner;
      }
      for (const int64_t sum : sums) *out++ = Round(sum);
    }
  }
}

}  // namespace

Tensor ResizeImage(const Tensor& image, int64_t height, int64_t width, Preprocess::Interp interp) {
  const int64_t h = image.dim(0), w = image.dim(1), c = image.dim(2);
  Tensor wide = image;
  if (width != w) {
    wide = Tensor(DType::kU8, {h, width, c});
    Filter(image.data<uint8_t>().data(), wide.mutable_data<uint8_t>().data(), h, w, c,
           MakeTaps(w, width, interp));
  }
  if (height == h) return wide;
  Tensor out(DType::kU8, {height, width, c});
  Filter(wide.data<uint8_t>().data(), out.mutable_data<uint8_t>().data(), 1, h, width * c,
         MakeTaps(h, height, interp));
  return out;
}

}  // namespace infer
