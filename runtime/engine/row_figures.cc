#include "runtime/engine/row_figures.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace infer::engine {
namespace {

float Ordered(double v) {
  return std::isnan(v) ? std::numeric_limits<float>::infinity() : static_cast<float>(v);
}

/// Elements of one group: `outer` blocks of `length` neighbours, `stride` elements apart.
struct Run {
  int64_t begin, outer, length, stride;
  int64_t size() const { return outer * length; }
};

/// Mean and standard deviation of at most kMostElements of them, shifted by the first so that large
/// offsets cost no digits.
template <typename T>
std::pair<double, double> MomentsOf(const T* data, const Run& run) {
  const int64_t step = std::max<int64_t>(1, run.size() / kMostElements);
  const auto at = [&](int64_t i) {
    const int64_t place = run.begin + i / run.length * run.stride + i % run.length;
    return static_cast<double>(data[place]);
  };
  const double first = at(0);
  double sum = 0, squares = 0, count = 0;
  for (int64_t i = 0; i < run.size(); i += step, ++count) {
    const double d = at(i) - first;
    sum += d;
    squares += d * d;
  }
  const double mean = sum / count;
  return {first + mean, std::sqrt(std::max(0.0, squares / count - mean * mean))};
}

template <typename T>
std::vector<float> FiguresOfRow(const T* row, int64_t size, int64_t inner, const RowParts& parts) {
  std::vector<float> figures(parts.figures());
  const auto groups = static_cast<size_t>(parts.groups);
  for (int64_t g = 0; g < parts.groups; ++g) {
    const int64_t first = parts.FirstOf(g), channels = parts.FirstOf(g + 1) - first;
    const int64_t stride = parts.channels * inner;
    const auto [mean, spread] = MomentsOf(row, {.begin = first * inner,
                                                .outer = size / stride,
                                                .length = channels * inner,
                                                .stride = stride});
    figures[static_cast<size_t>(g)] = Ordered(mean);
    if (parts.has_contrast) figures[groups + static_cast<size_t>(g)] = Ordered(std::log(spread));
  }
  return figures;
}

/// Elements behind the channel axis.
int64_t InnerOf(const Tensor& t, int axis) {
  int64_t inner = 1;
  for (int i = axis + 1; i < t.rank(); ++i) inner *= t.dim(i);
  return inner;
}

}  // namespace

std::string_view Name(RowFigure f) { return f == RowFigure::kMean ? "mean" : "contrast"; }

int64_t RowParts::FirstOf(int64_t group) const { return (group * channels + groups - 1) / groups; }

std::optional<RowParts> RowPartsOf(const Tensor& t) {
  if (!t.defined() || t.rank() == 0 || t.num_elements() == 0) return std::nullopt;
  if (!DispatchReal(t.dtype(), [](auto) {})) return std::nullopt;
  RowParts parts{.dtype = t.dtype()};
  if (t.rank() > 1 && !(IsInteger(t.dtype()) && t.rank() == 2)) {
    parts.axis = t.dim(1) <= t.dim(-1) ? 1 : t.rank() - 1;
    parts.channels = t.dim(parts.axis);
  }
  parts.groups = std::min(parts.channels, kMostGroups);
  parts.has_contrast = t.num_elements() / t.dim(0) > parts.channels;
  if (parts.channels > parts.groups) parts.has_contrast = true;
  return parts;
}

std::vector<std::vector<float>> FiguresOf(const Tensor& t, const RowParts& parts) {
  if (!t.defined() || t.dtype() != parts.dtype || t.rank() == 0 || t.num_elements() == 0) return {};
  const int64_t size = t.num_elements() / t.dim(0);
  const int64_t inner = parts.axis < 0 ? size : InnerOf(t, parts.axis);
  if (parts.axis >= t.rank() || (parts.axis >= 0 && t.dim(parts.axis) != parts.channels)) return {};
  std::vector<std::vector<float>> rows;
  DispatchReal(t.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t r = 0; r < t.dim(0); ++r)
      rows.push_back(FiguresOfRow(t.data<T>().data() + r * size, size, inner, parts));
  });
  return rows;
}

}  // namespace infer::engine
