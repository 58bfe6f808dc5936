#include "runtime/engine/device_matrix.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/engine/engine.h"

namespace infer::engine {
namespace {

constexpr double kTwoSided95 = 1.96;

}  // namespace

void Pairs::Add(double x, double y) {
  const double dx = x - mean_x, dy = y - mean_y;
  const auto n = static_cast<double>(++count);
  mean_x += dx / n;
  mean_y += dy / n;
  xx += dx * (x - mean_x);
  yy += dy * (y - mean_y);
  xy += dx * (y - mean_y);
}

void Pairs::Merge(const Pairs& o) {
  if (o.count == 0) return;
  const double dx = o.mean_x - mean_x, dy = o.mean_y - mean_y;
  const auto mine = static_cast<double>(count), others = static_cast<double>(o.count);
  const double all = mine + others, weight = mine * others / all;
  count += o.count;
  mean_x += dx * others / all;
  mean_y += dy * others / all;
  xx += o.xx + dx * dx * weight;
  yy += o.yy + dy * dy * weight;
  xy += o.xy + dx * dy * weight;
}

std::optional<Correlation> Pairs::Correlate() const {
  // Rounding of equal numbers leaves this share of their squares at most.
  const auto varies = [&](double squares, double mean) {
    return squares > 1e-12 * (1 + mean * mean) * static_cast<double>(count);
  };
  if (count < kLeast || !varies(xx, mean_x) || !varies(yy, mean_y)) return std::nullopt;
  Correlation c{.r = std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0)};
  // The logarithm of an exact line has no end.
  const double z = std::atanh(std::clamp(c.r, -1 + 1e-12, 1 - 1e-12));
  const double half = kTwoSided95 / std::sqrt(static_cast<double>(count - 3));
  c.low = std::tanh(z - half);
  c.high = std::tanh(z + half);
  return c;
}

void LatencyFactors::Add(int64_t requests_before, int64_t rows_of_run, int64_t input_bytes,
                         int64_t total_ns) {
  const auto log_of = [](int64_t n) {
    return std::log1p(static_cast<double>(std::max<int64_t>(n, 0)));
  };
  const double latency = log_of(total_ns);
  load.Add(log_of(requests_before), latency);
  rows.Add(log_of(rows_of_run), latency);
  bytes.Add(log_of(input_bytes), latency);
}

void LatencyFactors::Merge(const LatencyFactors& o) {
  load.Merge(o.load);
  rows.Merge(o.rows);
  bytes.Merge(o.bytes);
}

std::vector<MatrixCell> DeviceMatrix(std::span<const ModelStats> models) {
  std::vector<MatrixCell> cells;
  for (const ModelStats& m : models) {
    const size_t first = cells.size();
    for (const VersionStats& v : m.versions) {
      if (v.times.ended() == 0) continue;
      const auto of_model = cells.begin() + static_cast<std::ptrdiff_t>(first);
      auto cell = std::find_if(of_model, cells.end(),
                               [&](const MatrixCell& c) { return c.device == v.device; });
      if (cell == cells.end())
        cell = cells.insert(cells.end(), {.model = m.model, .device = v.device});
      cell->times.Merge(v.times);
      cell->factors.Merge(v.factors);
    }
  }
  return cells;
}

std::optional<double> DeviceShare(std::span<const MatrixCell> cells) {
  std::map<std::string, Pairs> by_device;
  Pairs all;
  for (const MatrixCell& c : cells) {
    // Their latencies are in each of the factors.
    if (c.factors.load.count > 0) by_device[c.device].Merge(c.factors.load);
    all.Merge(c.factors.load);
  }
  if (by_device.size() < 2 || all.yy <= 0) return std::nullopt;
  double between = 0;
  for (const auto& [device, of_device] : by_device) {
    if (of_device.count < Pairs::kLeast) return std::nullopt;
    const double distance = of_device.mean_y - all.mean_y;
    between += static_cast<double>(of_device.count) * distance * distance;
  }
  return std::clamp(between / all.yy, 0.0, 1.0);
}

}  // namespace infer::engine
