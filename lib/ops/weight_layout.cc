#include "lib/ops/weight_layout.h"

namespace infer {
namespace {

size_t AxisOf(int axis, const Dims& w) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int>(w.size()) : axis);
}

/// Product of the extents behind `axis`.
int64_t StrideOf(size_t axis, const Dims& w) {
  int64_t stride = 1;
  for (size_t i = axis + 1; i < w.size(); ++i) stride *= w[i];
  return stride;
}

}  // namespace

int64_t WeightLayout::InputChannels(const Dims& w) const {
  return w[AxisOf(in_axis, w)] * (outputs_in_groups ? 1 : groups);
}

int64_t WeightLayout::OutputChannels(const Dims& w) const {
  return w[AxisOf(out_axis, w)] * (outputs_in_groups ? groups : 1);
}

void WeightLayout::ForEach(const Dims& w, FunctionRef<void(size_t, int64_t, int64_t)> f) const {
  const size_t in = AxisOf(in_axis, w), out = AxisOf(out_axis, w);
  const int64_t in_stride = StrideOf(in, w), out_stride = StrideOf(out, w);
  const int64_t size = NumElements(w);
  if (size == 0) return;
  for (int64_t i = 0; i < size; ++i) {
    int64_t c = i / in_stride % w[in], m = i / out_stride % w[out];
    if (outputs_in_groups)
      m += c / (w[in] / groups) * w[out];
    else
      c += m / (w[out] / groups) * w[in];
    f(static_cast<size_t>(i), c, m);
  }
}

}  // namespace infer
