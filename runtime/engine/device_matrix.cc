#include "runtime/engine/device_matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "runtime/engine/engine.h"

namespace infer::engine {
namespace {

constexpr double kTwoSided95 = 1.96;

constexpr int kTableBits = 9;
constexpr size_t kTableSize = size_t{1} << kTableBits;

/// Of 1 to 2: bit by bit, by squares.
constexpr std::array<int16_t, kTableSize> MakeLogs() {
  std::array<int16_t, kTableSize> logs = {};
  for (size_t i = 0; i < kTableSize; ++i) {
    double m = 1 + static_cast<double>(i) / kTableSize;
    int64_t log = 0;
    for (int64_t bit = kLogUnit / 2; bit > 0; bit /= 2) {
      m *= m;
      if (m < 2) continue;
      m /= 2;
      log += bit;
    }
    logs[i] = static_cast<int16_t>(log);
  }
  return logs;
}
constexpr std::array<int16_t, kTableSize> kLogs = MakeLogs();

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

int64_t TableLog(int64_t n) {
  const uint64_t v = static_cast<uint64_t>(std::max<int64_t>(n, 0)) + 1;
  const int power = static_cast<int>(std::bit_width(v)) - 1;
  const uint64_t top = power > kTableBits ? v >> (power - kTableBits) : v << (kTableBits - power);
  return power * kLogUnit + kLogs[top & (kTableSize - 1)];
}

void LatencyFactors::Add(int64_t requests_before, int64_t rows_of_run, int64_t input_bytes,
                         int64_t total_ns) {
  const int64_t y = TableLog(total_ns);
  const std::array<int64_t, 3> xs = {TableLog(requests_before), TableLog(rows_of_run),
                                     TableLog(input_bytes)};
  ++count_;
  y_ += y;
  yy_ += static_cast<Sum>(y) * y;
  for (size_t i = 0; i < xs.size(); ++i) {
    factors_[i].x += xs[i];
    factors_[i].xx += static_cast<Sum>(xs[i]) * xs[i];
    factors_[i].xy += static_cast<Sum>(xs[i]) * y;
  }
}

void LatencyFactors::Merge(const LatencyFactors& o) {
  count_ += o.count_;
  y_ += o.y_;
  yy_ += o.yy_;
  for (size_t i = 0; i < factors_.size(); ++i) {
    factors_[i].x += o.factors_[i].x;
    factors_[i].xx += o.factors_[i].xx;
    factors_[i].xy += o.factors_[i].xy;
  }
}

/// With logarithms in units of 1.
Pairs LatencyFactors::Of(size_t factor) const {
  Pairs p{.count = count_};
  if (count_ == 0) return p;
  const Factor& f = factors_[factor];
  const auto n = static_cast<double>(count_), unit = static_cast<double>(kLogUnit);
  // Sums of squares and squares of sums are nearly alike: their difference is taken of the whole
  // numbers.
  const auto spread = [&](Sum products, int64_t a, int64_t b) {
    return static_cast<double>(products * count_ - static_cast<Sum>(a) * b) / n / unit / unit;
  };
  p.mean_x = static_cast<double>(f.x) / n / unit;
  p.mean_y = static_cast<double>(y_) / n / unit;
  p.xx = spread(f.xx, f.x, f.x);
  p.yy = spread(yy_, y_, y_);
  p.xy = spread(f.xy, f.x, y_);
  return p;
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
    const Pairs of_cell = c.factors.load();
    if (of_cell.count > 0) by_device[c.device].Merge(of_cell);
    all.Merge(of_cell);
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
