#include "quant/prune/allocate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace infer {
namespace {

/// A stretch of a layer's hull: so many units at so much each.
struct HullSegment {
  double slope;
  size_t layer;
  int64_t units;
};

void AddHull(const CostCurve& c, size_t layer, std::vector<HullSegment>& segments) {
  std::vector<std::pair<int64_t, double>> hull = {{0, 0.0}};
  const auto slope = [](const auto& a, const auto& b) {
    return (b.second - a.second) / static_cast<double>(b.first - a.first);
  };
  for (const auto& point : c.points) {
    if (point.first <= hull.back().first) continue;
    while (hull.size() > 1 &&
           slope(hull.back(), point) <= slope(hull[hull.size() - 2], hull.back()))
      hull.pop_back();
    hull.push_back(point);
  }
  for (size_t i = 1; i < hull.size(); ++i)
    segments.push_back({slope(hull[i - 1], hull[i]), layer, hull[i].first - hull[i - 1].first});
  if (const int64_t rest = c.units - hull.back().first; rest > 0)
    segments.push_back({INFINITY, layer, rest});
}

}  // namespace

std::vector<int64_t> AllocateByCost(std::span<const CostCurve> curves, int64_t total) {
  std::vector<HullSegment> segments;
  for (size_t i = 0; i < curves.size(); ++i) AddHull(curves[i], i, segments);
  std::stable_sort(segments.begin(), segments.end(),
                   [](const auto& a, const auto& b) { return a.slope < b.slope; });
  std::vector<int64_t> zeros(curves.size(), 0);
  for (const HullSegment& s : segments) {
    const int64_t take = std::min(s.units, total);
    zeros[s.layer] += take;
    total -= take;
  }
  return zeros;
}

std::vector<int64_t> AllocateEvenly(std::span<const int64_t> units, int64_t total) {
  const int64_t all = std::accumulate(units.begin(), units.end(), int64_t{0});
  std::vector<int64_t> zeros(units.size(), 0);
  int64_t seen = 0, given = 0;
  for (size_t i = 0; i < units.size() && all > 0; ++i) {
    seen += units[i];
    const auto until = std::llround(static_cast<double>(total) * static_cast<double>(seen) /
                                    static_cast<double>(all));
    zeros[i] = std::clamp<int64_t>(until - given, 0, units[i]);
    given += zeros[i];
  }
  return zeros;
}

std::vector<size_t> LayersToSpare(std::span<const int64_t> weights, std::span<const double> costs,
                                  double share) {
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return costs[a] * static_cast<double>(weights[b]) > costs[b] * static_cast<double>(weights[a]);
  });
  const double all =
      static_cast<double>(std::accumulate(weights.begin(), weights.end(), int64_t{0}));
  std::vector<size_t> spared;
  double held = 0;
  for (const size_t i : order) {
    if (!(costs[i] > 0) || held + static_cast<double>(weights[i]) > share * all) continue;
    held += static_cast<double>(weights[i]);
    spared.push_back(i);
  }
  std::sort(spared.begin(), spared.end());
  return spared;
}

}  // namespace infer
