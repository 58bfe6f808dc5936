#include "lib/ops/move/grid_sampler.h"

#include <algorithm>
#include <cmath>

#include "lib/support/strings.h"

namespace infer {
namespace {

/// v reflected at lo and hi until it lies between them.
double Reflect(double v, double lo, double hi) {
  const double range = hi - lo;
  if (range <= 0) return lo;
  double d = std::fmod(std::abs(v - lo), 2 * range);
  if (d > range) d = 2 * range - d;
  return lo + d;
}

}  // namespace

Result<GridSampler> GridSampler::Of(const std::string& mode, const std::string& padding,
                                    bool align_corners) {
  GridSampler s;
  s.align_corners_ = align_corners;
  s.points_ = mode == "nearest" ? 1 : mode == "linear" ? 2 : mode == "cubic" ? 4 : 0;
  if (s.points_ == 0) return InvalidModel(Cat("no mode '", mode, "'"));
  if (padding == "border")
    s.padding_ = Padding::kBorder;
  else if (padding == "reflection")
    s.padding_ = Padding::kReflection;
  else if (padding != "zeros")
    return InvalidModel(Cat("no padding_mode '", padding, "'"));
  return s;
}

GridSampler::Tap GridSampler::At(int64_t i, double weight, int64_t n, double lo, double hi) const {
  if (i >= 0 && i < n) return {i, weight};
  if (padding_ == Padding::kZeros) return {};
  if (padding_ == Padding::kBorder) return {std::clamp<int64_t>(i, 0, n - 1), weight};
  const auto r = static_cast<int64_t>(Reflect(static_cast<double>(i), lo, hi));
  return {std::clamp<int64_t>(r, 0, n - 1), weight};
}

void GridSampler::TapsOf(double g, int64_t n, Tap* taps) const {
  const auto size = static_cast<double>(n);
  const double lo = align_corners_ ? 0 : -0.5, hi = align_corners_ ? size - 1 : size - 0.5;
  double v = align_corners_ ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
  v = static_cast<float>(v);
  if (!(std::abs(v) < 1e9)) v = v > 0 ? 1e9 : -1e9;  // far outside; NaN too
  if (points_ == 1) v = std::nearbyint(v);
  if (v < lo || v > hi) {
    if (padding_ == Padding::kBorder) v = std::clamp(v, 0.0, size - 1);
    if (padding_ == Padding::kReflection) v = Reflect(v, lo, hi);
  }
  if (points_ == 1) {
    taps[0] = At(static_cast<int64_t>(v), 1, n, lo, hi);
    return;
  }
  const double base = std::floor(v), t = v - base;
  for (int k = 0; k < points_; ++k) {
    const int offset = k - points_ / 2 + 1;
    taps[k] = At(static_cast<int64_t>(base) + offset, Weight(std::abs(t - offset)), n, lo, hi);
  }
}

double GridSampler::Weight(double distance) const {
  const double d = distance;
  if (points_ == 2) return std::max(0.0, 1 - d);
  constexpr double a = -0.75;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

}  // namespace infer
