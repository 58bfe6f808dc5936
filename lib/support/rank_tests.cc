#include "lib/support/rank_tests.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "lib/support/status.h"

namespace infer {
namespace {

constexpr size_t kExactPairs = 25;   // of each side of the U test
constexpr size_t kExactSigned = 50;  // values of the signed-rank test
constexpr size_t kMostValues = 1000;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double UpperTail(double z) { return 0.5 * std::erfc(z / std::sqrt(2.0)); }

/// Ranks of `values` from 1, ties sharing their mean, and sum(t^3 - t) over groups of ties.
std::vector<double> Ranks(std::span<const double> values, double* tie_sum) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return values[i] < values[j]; });
  std::vector<double> ranks(values.size());
  *tie_sum = 0;
  for (size_t i = 0; i < order.size();) {
    size_t j = i;
    while (j < order.size() && values[order[j]] == values[order[i]]) ++j;
    const auto t = static_cast<double>(j - i);
    *tie_sum += t * t * t - t;
    for (size_t k = i; k < j; ++k)
      ranks[order[k]] = (static_cast<double>(i) + static_cast<double>(j) + 1) / 2;
    i = j;
  }
  return ranks;
}

/// Chances of U = 0 ... n*m when every order is equally likely.
std::vector<double> UDistribution(size_t n, size_t m) {
  // counts[i][u]: ways to place i values of the first side among those of both so far.
  std::vector<std::vector<double>> counts(n + 1, std::vector<double>(n * m + 1, 0.0));
  counts[0][0] = 1;
  for (size_t all = 1; all <= n + m; ++all)
    for (size_t i = std::min(all, n); i >= 1; --i) {
      // The largest of `all` is of the first side: it lies above all - i values of the second.
      const size_t below = all - i;
      if (below > m) continue;
      for (size_t u = n * m + 1; u-- > below;) counts[i][u] += counts[i - 1][u - below];
    }
  const double sum = std::accumulate(counts[n].begin(), counts[n].end(), 0.0);
  for (double& c : counts[n]) c /= sum;
  return counts[n];
}

/// Chances of W = 0 ... n(n+1)/2, the sum of the ranks with a positive sign.
std::vector<double> SignedRankDistribution(size_t n) {
  std::vector<double> chance(n * (n + 1) / 2 + 1, 0.0);
  chance[0] = 1;
  for (size_t rank = 1; rank <= n; ++rank)
    for (size_t w = chance.size(); w-- > 0;)
      chance[w] = 0.5 * (chance[w] + (w >= rank ? chance[w - rank] : 0.0));
  return chance;
}

/// Two-sided p of a statistic with a symmetric distribution.
double ExactP(const std::vector<double>& chance, double statistic) {
  const double other = static_cast<double>(chance.size() - 1) - statistic;
  const double least = std::min(statistic, other);
  double below = 0;
  for (size_t i = 0; i < chance.size() && static_cast<double>(i) <= least; ++i) below += chance[i];
  return std::min(1.0, 2 * below);
}

/// The largest k such that P(statistic < k) <= tail: the interval goes from the k-th smallest to
/// the k-th largest of what the statistic counts. 0: none.
int64_t CriticalCount(const std::vector<double>& chance, double tail) {
  double below = 0;
  int64_t k = 0;
  for (const double c : chance) {
    below += c;
    if (below > tail) break;
    ++k;
  }
  return k;
}

int64_t NormalCriticalCount(double mean, double variance, double tail) {
  // z with UpperTail(z) = tail, by halving.
  double low = 0, high = 40;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (UpperTail(middle) > tail ? low : high) = middle;
  }
  return std::max<int64_t>(0, static_cast<int64_t>(std::floor(mean - high * std::sqrt(variance))));
}

/// Median of `all` and its k-th smallest and largest.
Estimate FromCounts(std::vector<double>& all, int64_t k) {
  std::sort(all.begin(), all.end());
  const size_t n = all.size();
  Estimate e;
  e.value = (all[(n - 1) / 2] + all[n / 2]) / 2;
  const bool supported = k >= 1 && 2 * static_cast<size_t>(k) <= n;
  e.low = supported ? all[static_cast<size_t>(k) - 1] : -kInfinity;
  e.high = supported ? all[n - static_cast<size_t>(k)] : kInfinity;
  return e;
}

std::vector<double> Thinned(std::span<const double> values) {
  if (values.size() <= kMostValues) return {values.begin(), values.end()};
  std::vector<double> out;
  for (size_t i = 0; i < kMostValues; ++i) out.push_back(values[i * values.size() / kMostValues]);
  return out;
}

}  // namespace

double MannWhitneyP(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return 1;
  std::vector<double> both(a.begin(), a.end());
  both.insert(both.end(), b.begin(), b.end());
  double ties = 0;
  const std::vector<double> ranks = Ranks(both, &ties);
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  double u = -n * (n + 1) / 2;
  for (size_t i = 0; i < a.size(); ++i) u += ranks[i];
  if (ties == 0 && a.size() <= kExactPairs && b.size() <= kExactPairs)
    return ExactP(UDistribution(a.size(), b.size()), u);
  const double all = n + m;
  const double variance = n * m / 12 * (all + 1 - ties / (all * (all - 1)));
  if (variance <= 0) return 1;  // all values are equal
  const double distance = std::max(0.0, std::abs(u - n * m / 2) - 0.5);
  return std::min(1.0, 2 * UpperTail(distance / std::sqrt(variance)));
}

double KolmogorovSmirnovP(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return 1;
  std::vector<double> x(a.begin(), a.end()), y(b.begin(), b.end());
  std::sort(x.begin(), x.end());
  std::sort(y.begin(), y.end());
  const auto n = static_cast<double>(x.size()), m = static_cast<double>(y.size());
  double largest = 0;
  for (size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    const double value = std::min(x[i], y[j]);
    while (i < x.size() && x[i] == value) ++i;
    while (j < y.size() && y[j] == value) ++j;
    largest = std::max(largest, std::abs(static_cast<double>(i) / n - static_cast<double>(j) / m));
  }
  const double root = std::sqrt(n * m / (n + m));
  const double lambda = (root + 0.12 + 0.11 / root) * largest;
  if (lambda < 0.3) return 1;  // the sum needs many terms there, and is above 1 - 1e-5
  double p = 0;
  for (int k = 1; k <= 20; ++k)
    p += (k % 2 == 1 ? 2 : -2) * std::exp(-2.0 * k * k * lambda * lambda);
  return std::clamp(p, 0.0, 1.0);
}

double SignedRankP(std::span<const double> d) {
  std::vector<double> size;
  std::vector<bool> positive;
  for (const double v : d)
    if (v != 0) {
      size.push_back(std::abs(v));
      positive.push_back(v > 0);
    }
  if (size.empty()) return 1;
  double ties = 0;
  const std::vector<double> ranks = Ranks(size, &ties);
  double w = 0;
  for (size_t i = 0; i < ranks.size(); ++i) w += positive[i] ? ranks[i] : 0;
  const auto n = static_cast<double>(size.size());
  if (ties == 0 && size.size() <= kExactSigned)
    return ExactP(SignedRankDistribution(size.size()), w);
  const double variance = n * (n + 1) * (2 * n + 1) / 24 - ties / 48;
  const double distance = std::max(0.0, std::abs(w - n * (n + 1) / 4) - 0.5);
  return std::min(1.0, 2 * UpperTail(distance / std::sqrt(variance)));
}

Estimate HodgesLehmann(std::span<const double> d, double confidence) {
  INFER_CHECK(!d.empty() && confidence > 0 && confidence < 1);
  const std::vector<double> values = Thinned(d);
  std::vector<double> averages;
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t j = i; j < values.size(); ++j) averages.push_back((values[i] + values[j]) / 2);
  const auto n = static_cast<double>(values.size());
  const double tail = (1 - confidence) / 2;
  const int64_t k =
      values.size() <= kExactSigned
          ? CriticalCount(SignedRankDistribution(values.size()), tail)
          : NormalCriticalCount(n * (n + 1) / 4, n * (n + 1) * (2 * n + 1) / 24, tail);
  return FromCounts(averages, k);
}

Estimate HodgesLehmannShift(std::span<const double> a, std::span<const double> b,
                            double confidence) {
  INFER_CHECK(!a.empty() && !b.empty() && confidence > 0 && confidence < 1);
  const std::vector<double> from = Thinned(a), to = Thinned(b);
  std::vector<double> differences;
  for (const double x : from)
    for (const double y : to) differences.push_back(y - x);
  const auto n = static_cast<double>(from.size()), m = static_cast<double>(to.size());
  const double tail = (1 - confidence) / 2;
  const int64_t k = from.size() <= kExactPairs && to.size() <= kExactPairs
                        ? CriticalCount(UDistribution(from.size(), to.size()), tail)
                        : NormalCriticalCount(n * m / 2, n * m * (n + m + 1) / 12, tail);
  return FromCounts(differences, k);
}

}  // namespace infer
