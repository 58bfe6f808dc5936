#include "lib/support/statistics.h"

#include <algorithm>
#include <cmath>

#include "lib/support/random.h"
#include "lib/support/status.h"

namespace infer {
namespace {

double QuantileSorted(std::span<const double> sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

double Quantile(std::span<const double> samples, double q) {
  INFER_CHECK(!samples.empty() && q >= 0 && q <= 1);
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return QuantileSorted(sorted, q);
}

double UpperMedian(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool QuantileSupported(int64_t count, double q) {
  return static_cast<double>(count) * (1 - q) >= 10 - 1e-9;
}

Summary Summarize(std::span<const double> samples) {
  Summary s;
  s.count = static_cast<int64_t>(samples.size());
  if (samples.empty()) return s;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  s.min = sorted.front();
  s.max = sorted.back();
  s.median = QuantileSorted(sorted, 0.5);
  double sum = 0;
  for (double v : sorted) sum += v;
  s.mean = sum / n;
  double squares = 0;
  std::vector<double> deviations;
  for (double v : sorted) {
    squares += (v - s.mean) * (v - s.mean);
    deviations.push_back(std::abs(v - s.median));
  }
  s.stddev = sorted.size() > 1 ? std::sqrt(squares / (n - 1)) : 0;
  s.cv = s.mean != 0 ? s.stddev / s.mean : 0;
  std::sort(deviations.begin(), deviations.end());
  s.mad = QuantileSorted(deviations, 0.5);
  for (double v : sorted) s.outliers += std::abs(v - s.median) > 3 * 1.4826 * s.mad;

  constexpr int kResamples = 1000;
  Random random(42);
  std::vector<double> medians, draw(sorted.size());
  for (int i = 0; i < kResamples; ++i) {
    for (double& v : draw) v = sorted[random.Below(static_cast<uint32_t>(sorted.size()))];
    std::nth_element(draw.begin(), draw.begin() + static_cast<std::ptrdiff_t>(draw.size() / 2),
                     draw.end());
    medians.push_back(draw[draw.size() / 2]);
  }
  std::sort(medians.begin(), medians.end());
  s.median_low = QuantileSorted(medians, 0.025);
  s.median_high = QuantileSorted(medians, 0.975);
  return s;
}

}  // namespace infer
