#include "tools/infer_bench/peers/verdict.h"

#include <algorithm>
#include <cmath>

#include "lib/support/random.h"
#include "lib/support/statistics.h"
#include "lib/support/status.h"

namespace infer::peers {

Ratio RatioOf(std::span<const double> rounds) {
  INFER_CHECK(!rounds.empty());
  const Summary s = Summarize(rounds);
  return {s.median, s.median_low, s.median_high, s.count};
}

Ratio GeometricMean(const std::vector<std::vector<double>>& models) {
  INFER_CHECK(!models.empty());
  const auto mean_of = [&](auto&& draw) {
    double sum = 0;
    for (const auto& rounds : models) sum += std::log(Quantile(draw(rounds), 0.5));
    return std::exp(sum / static_cast<double>(models.size()));
  };
  Ratio r;
  r.rounds = static_cast<int64_t>(models.size());
  r.median = mean_of([](const auto& rounds) { return std::span<const double>(rounds); });
  constexpr int kResamples = 1000;  // as Summarize
  Random random(42);
  std::vector<double> means, drawn;
  for (int i = 0; i < kResamples; ++i)
    means.push_back(mean_of([&](const auto& rounds) {
      drawn.resize(rounds.size());
      for (double& v : drawn) v = rounds[random.Below(static_cast<uint32_t>(rounds.size()))];
      return std::span<const double>(drawn);
    }));
  r.low = Quantile(means, 0.025);
  r.high = Quantile(means, 0.975);
  return r;
}

std::string WordOf(const Ratio& r) {
  if (r.high < 1) return "faster";
  if (r.low > 1) return "slower";
  return "no difference";
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
