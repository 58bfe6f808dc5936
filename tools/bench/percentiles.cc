#include "tools/bench/percentiles.h"

#include <cmath>

#include "lib/support/status.h"
#include "lib/support/strings.h"
#include "tools/bench/distribution.h"

namespace infer::bench {
namespace {

constexpr double kDoubt = 0.01;

}  // namespace

// The largest t with P(Binomial(n, 1 - q) <= t) <= 1 %. Terms by their ratios; where q^n is too
// small for a double, in logarithms.
int64_t MostBeyond(int64_t n, double q) {
  const double beyond = 1 - q;
  double log_term = static_cast<double>(n) * std::log(q);
  double sum = std::exp(log_term);
  int64_t t = -1;
  while (sum <= kDoubt && t < n) {
    ++t;
    log_term +=
        std::log(static_cast<double>(n - t) / static_cast<double>(t + 1)) + std::log(beyond / q);
    sum += std::exp(log_term);
  }
  return t;
}

int64_t LeastCount(double q) {
  INFER_CHECK(q > 0 && q < 1);
  int64_t high = 2;
  while (MostBeyond(high, q) < 1) high *= 2;
  int64_t low = high / 2;
  while (low + 1 < high) {
    const int64_t middle = low + (high - low) / 2;
    (MostBeyond(middle, q) < 1 ? low : high) = middle;
  }
  return high;
}

std::optional<double> UpperLimit(std::span<const double> sorted, double q) {
  const auto n = static_cast<int64_t>(sorted.size());
  const int64_t t = MostBeyond(n, q);
  if (t < 1) return std::nullopt;
  return sorted[static_cast<size_t>(n - t)];
}

std::string PercentileName(double q) { return Cat("p", FormatFloat(static_cast<float>(q * 100))); }

std::vector<Percentile> Percentiles(std::span<const double> sorted,
                                    std::span<const double> quantiles) {
  std::vector<Percentile> out;
  for (double q : quantiles) {
    Percentile p{.q = q, .name = PercentileName(q), .value = {}, .upper = {}, .withheld = {}};
    const auto n = static_cast<int64_t>(sorted.size());
    if (const int64_t least = LeastCount(q); n < least)
      p.withheld = Cat("needs ", least, " samples, there are ", n);
    else
      p.value = QuantileOfSorted(sorted, q);
    p.upper = UpperLimit(sorted, q);
    out.push_back(std::move(p));
  }
  return out;
}

}  // namespace infer::bench
