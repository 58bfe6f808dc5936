#include "tools/infer_bench/peers/verdict.h"

#include <algorithm>
#include <cmath>

#include "lib/support/statistics.h"
#include "lib/support/status.h"
#include "lib/support/student.h"

namespace infer::peers {
namespace {

/// log(ratio / unit) of a model's starts.
struct LogMean {
  double value = 0;
  double variance = 0;  ///< of the value, not of a start
  int freedom = 0;
};

LogMean LogMeanOf(const StartRatios& starts, double unit) {
  INFER_CHECK(starts.size() >= 2);
  std::vector<double> logs;
  for (const auto& rounds : starts) logs.push_back(std::log(Quantile(rounds, 0.5) / unit));
  const auto n = static_cast<double>(logs.size());
  LogMean m{.freedom = static_cast<int>(logs.size()) - 1};
  for (const double v : logs) m.value += v / n;
  for (const double v : logs) m.variance += (v - m.value) * (v - m.value) / (n - 1) / n;
  return m;
}

}  // namespace

Ratio RatioOf(const StartRatios& starts) { return GeometricMean({starts}); }

Ratio GeometricMean(const std::vector<StartRatios>& models) {
  INFER_CHECK(!models.empty());
  const auto n = static_cast<double>(models.size());
  // Relative to one of them: equal ratios stay what they are, to the last bit.
  const double unit = Quantile(models[0].at(0), 0.5);
  double mean = 0, variance = 0, spread = 0;
  for (const StartRatios& starts : models) {
    const LogMean m = LogMeanOf(starts, unit);
    mean += m.value / n;
    const double share = m.variance / (n * n);
    variance += share;
    spread += share * share / m.freedom;
  }
  // Welch and Satterthwaite, rounded down but for what rounding itself takes off.
  const int freedom =
      spread > 0 ? std::max(1, static_cast<int>(variance * variance / spread + 1e-6)) : 1;
  const double reach = std::sqrt(variance) * StudentQuantile(0.95, freedom);
  return {unit * std::exp(mean), unit * std::exp(mean - reach), unit * std::exp(mean + reach)};
}

std::string WordOf(const Ratio& r) {
  if (r.high < 1) return "faster";
  if (r.low > 1) return "slower";
  return r.high <= 1 + kSameWithin && r.low >= 1 / (1 + kSameWithin) ? "same" : "inconclusive";
}

Gate GateOf(const Ratio& r, double max_ratio) {
  if (r.high <= max_ratio) return Gate::kPassed;
  if (r.low > max_ratio) return Gate::kFailed;
  return Gate::kInconclusive;
}

std::string NameOf(Gate g) {
  switch (g) {
    case Gate::kPassed: return "passed";
    case Gate::kFailed: return "failed";
    case Gate::kInconclusive: return "inconclusive";
  }
  return "";
}

}  // namespace infer::peers
