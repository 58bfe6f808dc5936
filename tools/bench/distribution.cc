#include "tools/bench/distribution.h"

#include <algorithm>
#include <cmath>

namespace infer::bench {
namespace {

double NormalCdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

/// P(Binomial(n, k / n) > n / 2), summed; beyond 2000 samples by the normal distribution with a
/// correction for continuity, which is then right to a fraction of a rank.
double MedianAtMost(int64_t k, int64_t n) {
  if (k >= n) return 1;
  const double p = static_cast<double>(k) / static_cast<double>(n);
  const int64_t least = n / 2 + 1;
  constexpr int64_t kExact = 2000;
  const auto count = static_cast<double>(n);
  if (n > kExact)
    return 1 - NormalCdf((static_cast<double>(least) - 0.5 - count * p) /
                         std::sqrt(count * p * (1 - p)));
  double sum = 0;
  for (int64_t i = least; i <= n; ++i) {
    const auto x = static_cast<double>(i);
    sum += std::exp(std::lgamma(count + 1) - std::lgamma(x + 1) - std::lgamma(count - x + 1) +
                    x * std::log(p) + (count - x) * std::log1p(-p));
  }
  return sum;
}

/// The smallest rank that the resampled median does not exceed with this probability.
int64_t RankOf(double probability, int64_t n) {
  int64_t low = 0, high = n;
  while (low + 1 < high) {
    const int64_t middle = low + (high - low) / 2;
    (MedianAtMost(middle, n) < probability ? low : high) = middle;
  }
  return high;
}

}  // namespace

double QuantileOfSorted(std::span<const double> sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Distribution Describe(std::span<const double> samples, std::span<const double> quantiles) {
  Distribution d;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  d.percentiles = Percentiles(sorted, quantiles);
  d.count = static_cast<int64_t>(sorted.size());
  if (sorted.empty()) return d;
  const auto n = static_cast<double>(sorted.size());
  d.min = sorted.front();
  d.max = sorted.back();
  d.median = QuantileOfSorted(sorted, 0.5);
  for (double v : sorted) d.mean += v / n;
  double squares = 0;
  std::vector<double> deviations;
  deviations.reserve(sorted.size());
  for (double v : sorted) {
    squares += (v - d.mean) * (v - d.mean);
    deviations.push_back(std::abs(v - d.median));
  }
  d.stddev = sorted.size() > 1 ? std::sqrt(squares / (n - 1)) : 0;
  d.cv = d.mean != 0 ? d.stddev / d.mean : 0;
  std::sort(deviations.begin(), deviations.end());
  d.mad = QuantileOfSorted(deviations, 0.5);
  for (size_t i = 0; i < samples.size(); ++i)
    if (std::abs(samples[i] - d.median) > 3 * 1.4826 * d.mad)
      d.outliers.push_back(static_cast<int64_t>(i));
  d.median_low = sorted[static_cast<size_t>(RankOf(0.025, d.count) - 1)];
  d.median_high = sorted[static_cast<size_t>(RankOf(0.975, d.count) - 1)];
  return d;
}

}  // namespace infer::bench
