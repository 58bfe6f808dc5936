#include "tools/infer_bench/tune/slo.h"

#include <algorithm>
#include <cmath>

#include "lib/support/strings.h"
#include "tools/bench/percentiles.h"

namespace infer::bench {
namespace {

/// From so many queries on they are counted.
constexpr int64_t kFewQueries = 50;

/// P(Binomial(n, p) < k), 0 < p < 1: terms by their ratios, in logarithms where (1 - p)^n is too
/// small for a double.
double BinomialBelow(int64_t n, int64_t k, double p) {
  double log_term = static_cast<double>(n) * std::log1p(-p), sum = 0;
  for (int64_t i = 0; i < std::min(k, n + 1); ++i) {
    sum += std::exp(log_term);
    log_term +=
        std::log(static_cast<double>(n - i) / static_cast<double>(i + 1)) + std::log(p / (1 - p));
  }
  return std::min(sum, 1.0);
}

/// P(Poisson(mean) < k).
double PoissonBelow(int64_t k, double mean) {
  double log_term = -mean, sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    sum += std::exp(log_term);
    log_term += std::log(mean / static_cast<double>(i + 1));
  }
  return sum;
}

Result<SloLimit> ParseLimit(const std::string& text) {
  const auto refuse = [&] {
    return InvalidArgument(
        Cat("--slo ", text, ": write pPERCENTILE=TIME with a unit, as p99=80ms or p50=0.5s"));
  };
  const size_t at = text.find('=');
  if (at == std::string::npos || !text.starts_with("p")) return refuse();
  const auto percent = ParseDouble(text.substr(1, at - 1));
  if (!percent || !(*percent > 0 && *percent < 100)) return refuse();
  std::string_view time = std::string_view(text).substr(at + 1);
  double unit_ms = 0;
  for (const auto& [suffix, ms] : {std::pair("us", 1e-3), std::pair("ms", 1.0)})
    if (time.ends_with(suffix)) unit_ms = ms;
  const bool seconds = unit_ms == 0 && time.ends_with("s");
  if (!seconds && unit_ms == 0) return refuse();
  time.remove_suffix(seconds ? 1 : 2);
  const auto value = ParseDouble(time);
  if (!value || !(*value > 0) || !std::isfinite(*value)) return refuse();
  const double q = *percent / 100;
  return SloLimit{q, PercentileName(q), *value * (seconds ? 1e3 : unit_ms)};
}

}  // namespace

Result<Slo> ParseSlo(const std::vector<std::string>& texts) {
  if (texts.empty()) return InvalidArgument("--slo is missing: for example --slo p99=80ms");
  Slo slo;
  for (const std::string& text : texts) {
    INFER_ASSIGN(const SloLimit limit, ParseLimit(text));
    for (const SloLimit& other : slo)
      if (other.name == limit.name)
        return InvalidArgument(Cat("--slo: ", limit.name, " stands there twice"));
    slo.push_back(limit);
  }
  std::sort(slo.begin(), slo.end(), [](const auto& a, const auto& b) { return a.q > b.q; });
  return slo;
}

void Evidence::Add(const LoadResult& r, int64_t batch, int in_flight) {
  const RunSamples& s = r.latency.first();
  for (size_t i = 0; i < s.size(); ++i) latency_.Add(s.at_ms[i], s.ms[i]);
  seconds_ += r.seconds;
  samples_ += static_cast<double>(r.answered_in_time * batch);
  batch_ = batch;
  in_flight_ = in_flight;
}

double Evidence::samples_per_s() const {
  if (queries() == 0 || seconds_ <= 0) return 0;
  if (in_flight_ > 0 && queries() < kFewQueries && latency_.mean() > 0)
    return 1e3 * static_cast<double>(in_flight_ * batch_) / latency_.mean();
  return samples_ / seconds_;
}

double TailProbability(int64_t n, int64_t beyond, double q) {
  return beyond <= 0 ? 1 : std::max(0.0, 1 - BinomialBelow(n, beyond, 1 - q));
}

double Plausibility(const Slo& slo, const Evidence& e, double gather_ms) {
  double least = 1;
  for (const SloLimit& limit : slo) {
    const int64_t beyond = e.latency().CountAbove(limit.ms - gather_ms);
    least = std::min(least, TailProbability(e.queries(), beyond, limit.q));
  }
  return least;
}

bool Meets(const Slo& slo, const Evidence& e, double gather_ms) {
  return std::all_of(slo.begin(), slo.end(), [&](const SloLimit& limit) {
    const Percentile p = e.latency().AtQuantile(limit.q);
    return p.upper && *p.upper <= limit.ms - gather_ms;
  });
}

int64_t QueriesFor(const Slo& slo) {
  int64_t most = 1;
  for (const SloLimit& limit : slo) most = std::max(most, LeastCount(limit.q));
  return most;
}

// The time of batch - 1 further arrivals is Erlang's: it exceeds t when fewer came by then.
double GatherMs(const Slo& slo, int64_t batch, double rate) {
  if (batch <= 1 || rate <= 0) return 0;
  double q = 0;
  for (const SloLimit& limit : slo) q = std::max(q, limit.q);
  double low = 0, high = 1;
  while (PoissonBelow(batch - 1, high) > 1 - q) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (PoissonBelow(batch - 1, middle) > 1 - q ? low : high) = middle;
  }
  return 1e3 * high / rate;
}

}  // namespace infer::bench
