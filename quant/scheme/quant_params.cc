#include "quant/scheme/quant_params.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace infer {
namespace {

constexpr double kMinScale = std::numeric_limits<float>::min();
constexpr double kMaxScale = std::numeric_limits<float>::max();

float ToScale(double s) { return static_cast<float>(std::clamp(s, kMinScale, kMaxScale)); }

/// A tensor seen as [outer, channels, inner] around `axis`; per tensor: [1, 1, n].
struct ChannelView {
  int64_t outer = 1, channels = 1, inner = 1;
};

ChannelView ViewOf(const Tensor& t, int axis) {
  ChannelView v;
  if (axis < 0) {
    v.inner = t.num_elements();
    return v;
  }
  INFER_CHECK(axis < t.rank());
  for (int i = 0; i < axis; ++i) v.outer *= t.dim(i);
  v.channels = t.dim(axis);
  for (int i = axis + 1; i < t.rank(); ++i) v.inner *= t.dim(i);
  return v;
}

/// Calls f(element index, channel) in order.
template <typename F>
void ForEach(const ChannelView& v, F f) {
  int64_t i = 0;
  for (int64_t o = 0; o < v.outer; ++o)
    for (int64_t c = 0; c < v.channels; ++c)
      for (int64_t k = 0; k < v.inner; ++k) f(static_cast<size_t>(i++), static_cast<size_t>(c));
}

}  // namespace

int64_t QuantGrid::qmin() const {
  const int64_t lowest = IntegerMin(dtype);
  if (lowest == 0) return 0;
  const int64_t half = reduce_range ? lowest / 2 : lowest;
  return symmetric ? half + 1 : half;
}

int64_t QuantGrid::qmax() const {
  const int64_t highest = IntegerMax(dtype);
  return reduce_range ? highest / 2 : highest;
}

QuantParams ChooseParams(const Interval& range, const QuantGrid& grid) {
  INFER_CHECK(std::isfinite(range.lo) && std::isfinite(range.hi) && range.lo <= range.hi);
  const double lo = std::min(range.lo, 0.0), hi = std::max(range.hi, 0.0);
  const int64_t qmin = grid.qmin(), qmax = grid.qmax();
  const bool is_signed = IntegerMin(grid.dtype) < 0;
  QuantParams p{grid.dtype, -1, {1.0f}, {0}};
  if (grid.symmetric) {
    const int64_t middle = is_signed ? 0 : (qmax + 1) / 2;
    const double extent = std::max(-lo, hi);
    if (extent > 0) p.scale[0] = ToScale(extent / static_cast<double>(qmax - middle));
    p.zero_point[0] = static_cast<int32_t>(middle);
    return p;
  }
  if (hi > lo) p.scale[0] = ToScale((hi - lo) / static_cast<double>(qmax - qmin));
  const double zp = static_cast<double>(qmin) - lo / static_cast<double>(p.scale[0]);
  p.zero_point[0] = static_cast<int32_t>(
      std::clamp(std::nearbyint(zp), static_cast<double>(qmin), static_cast<double>(qmax)));
  return p;
}

QuantParams ChooseWeightParams(const Tensor& w, int axis, const QuantGrid& grid,
                               std::span<const double> min_scale) {
  const ChannelView view = ViewOf(w, axis);
  std::vector<double> extent(static_cast<size_t>(view.channels), 0.0);
  const auto x = w.data<float>();
  ForEach(view, [&](size_t i, size_t c) {
    const double a = std::fabs(static_cast<double>(x[i]));
    if (std::isfinite(a)) extent[c] = std::max(extent[c], a);
  });
  INFER_CHECK(min_scale.empty() || min_scale.size() == extent.size());
  // Codes of unsigned weights lie around the middle of the type.
  const int64_t middle = IntegerMin(grid.dtype) < 0 ? 0 : (IntegerMax(grid.dtype) + 1) / 2;
  const int64_t reach = middle == 0 ? grid.qmax() : (grid.reduce_range ? middle / 2 : middle) - 1;
  const double top = static_cast<double>(reach);
  const double largest = extent.empty() ? 0 : *std::max_element(extent.begin(), extent.end()) / top;
  QuantParams p{grid.dtype, axis, {}, {}};
  p.zero_point.assign(extent.size(), static_cast<int32_t>(middle));
  for (size_t c = 0; c < extent.size(); ++c) {
    double s = std::max(extent[c] / top, min_scale.empty() ? 0.0 : min_scale[c]);
    if (s == 0) s = largest > 0 ? largest : 1.0;
    p.scale.push_back(ToScale(s));
  }
  return p;
}

int64_t QuantizeValue(double x, float scale, int64_t zero_point, DType dtype) {
  const int64_t qmin = IntegerMin(dtype), qmax = IntegerMax(dtype);
  if (std::isnan(x)) return zero_point;
  // ONNX divides in the type of x; nearbyint rounds halves to even in the default mode.
  const double r = std::nearbyint(static_cast<float>(x) / scale);
  const double q = r + static_cast<double>(zero_point);
  if (q <= static_cast<double>(qmin)) return qmin;
  if (q >= static_cast<double>(qmax)) return qmax;
  return static_cast<int64_t>(q);
}

Tensor QuantizeTensor(const Tensor& x, const QuantParams& params) {
  Tensor q(params.dtype, x.dims());
  const auto in = x.data<float>();
  ForEach(ViewOf(x, params.axis), [&](size_t i, size_t c) {
    q.SetInt(static_cast<int64_t>(i), QuantizeValue(static_cast<double>(in[i]), params.scale[c],
                                                    params.zero_point[c], params.dtype));
  });
  return q;
}

Tensor DequantizeTensor(const Tensor& q, const QuantParams& params) {
  Tensor y(DType::kF32, q.dims());
  const auto out = y.mutable_data<float>();
  ForEach(ViewOf(q, params.axis), [&](size_t i, size_t c) {
    out[i] = static_cast<float>(q.IntAt(static_cast<int64_t>(i)) - params.zero_point[c]) *
             params.scale[c];
  });
  return y;
}

int64_t LostChannels(const Tensor& w, const Tensor& codes, int axis, int32_t zero_point) {
  if (axis < 0) return 0;
  const ChannelView view = ViewOf(w, axis);
  std::vector<bool> weights(static_cast<size_t>(view.channels)), coded(weights);
  const auto x = w.data<float>();
  ForEach(view, [&](size_t i, size_t c) {
    if (x[i] != 0) weights[c] = true;
    if (codes.IntAt(static_cast<int64_t>(i)) != zero_point) coded[c] = true;
  });
  int64_t lost = 0;
  for (size_t c = 0; c < coded.size(); ++c) lost += weights[c] && !coded[c] ? 1 : 0;
  return lost;
}

Interval FiniteRange(std::span<const float> values) {
  Interval r;
  bool any = false;
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    const double d = static_cast<double>(v);
    r = any ? Interval{std::min(r.lo, d), std::max(r.hi, d)} : Interval{d, d};
    any = true;
  }
  return r;
}

}  // namespace infer
