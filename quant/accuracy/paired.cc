#include "quant/accuracy/paired.h"

#include <algorithm>
#include <cmath>

#include "quant/accuracy/metrics.h"

namespace infer {
namespace {

/// P(X <= k), X ~ Bin(n, p). Terms from logarithms, so that n may be large.
double BinomialCdf(int64_t k, int64_t n, double p) {
  if (k < 0) return 0;
  if (k >= n || p <= 0) return 1;
  if (p >= 1) return 0;
  // ln P(X = i + 1) = ln P(X = i) + ln((n - i) / (i + 1)) + ln(p / q): no overflow for large n.
  const double log_odds = std::log(p) - std::log1p(-p);
  double log_term = static_cast<double>(n) * std::log1p(-p), sum = 0;
  for (int64_t i = 0; i <= k; ++i) {
    sum += std::exp(log_term);
    log_term += std::log(static_cast<double>(n - i) / static_cast<double>(i + 1)) + log_odds;
  }
  return std::min(sum, 1.0);
}

/// The x in [lo, hi] at which the decreasing function `f` equals `target`.
template <typename F>
double SolveDecreasing(const F& f, double lo, double hi, double target) {
  for (int i = 0; i < 60; ++i) {
    const double mid = 0.5 * (lo + hi);
    (f(mid) > target ? lo : hi) = mid;
  }
  return 0.5 * (lo + hi);
}

constexpr double kNormal975 = 1.959963984540054;  // quantile of the standard normal distribution

/// (lost - gained - n drop) over its standard deviation were `drop` the true one, with the
/// likeliest odds of a gain given that (Tango 1998). Decreases in drop. Pre: n > 0, -1 < drop < 1.
double DropScore(double lost, double gained, double n, double drop) {
  const double b = -lost - gained + (2 * n - lost + gained) * drop;
  const double c = -gained * drop * (1 - drop);
  const double odds = (std::sqrt(std::max(0.0, b * b - 8 * n * c)) - b) / (4 * n);
  const double variance = n * (2 * odds + drop * (1 - drop));
  const double excess = lost - gained - n * drop;
  if (variance <= 0) return excess == 0 ? 0 : std::copysign(HUGE_VAL, excess);
  return excess / std::sqrt(variance);
}

double Share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

double McNemarExact(int64_t lost, int64_t gained) {
  return std::min(1.0, 2 * BinomialCdf(std::min(lost, gained), lost + gained, 0.5));
}

Interval ClopperPearson(int64_t successes, int64_t trials, double confidence) {
  INFER_CHECK(0 <= successes && successes <= trials && confidence > 0 && confidence < 1);
  const double tail = (1 - confidence) / 2;
  Interval r{0, 1};
  const auto at_most = [trials](int64_t k) {
    return [k, trials](double p) { return BinomialCdf(k, trials, p); };
  };
  if (successes > 0) r.lo = SolveDecreasing(at_most(successes - 1), 0, 1, 1 - tail);
  if (successes < trials) r.hi = SolveDecreasing(at_most(successes), 0, 1, tail);
  return r;
}

void PairedAccuracy::Add(std::span<const float> golden, std::span<const float> candidate,
                         int64_t label) {
  INFER_CHECK(label >= 0 && label < static_cast<int64_t>(golden.size()));
  const auto g = TopK(golden, kTopClasses), c = TopK(candidate, kTopClasses);
  const bool g1 = g[0] == label, c1 = c[0] == label;
  ++samples;
  golden_top1 += g1;
  candidate_top1 += c1;
  golden_top5 += std::count(g.begin(), g.end(), label);
  candidate_top5 += std::count(c.begin(), c.end(), label);
  lost += g1 && !c1;
  gained += !g1 && c1;
}

double PairedAccuracy::golden_accuracy() const { return Share(golden_top1, samples); }
double PairedAccuracy::candidate_accuracy() const { return Share(candidate_top1, samples); }
double PairedAccuracy::drop() const { return Share(lost - gained, samples); }
double PairedAccuracy::p_value() const { return McNemarExact(lost, gained); }

Interval PairedAccuracy::DropInterval(double confidence) const {
  const Interval odds = ClopperPearson(lost, lost + gained, confidence);
  const double scale = Share(lost + gained, samples);
  return {(2 * odds.lo - 1) * scale, (2 * odds.hi - 1) * scale};
}

Interval PairedAccuracy::PopulationDropInterval() const {
  if (samples == 0) return {-1, 1};
  const auto score = [this](double true_drop) {
    return DropScore(static_cast<double>(lost), static_cast<double>(gained),
                     static_cast<double>(samples), true_drop);
  };
  return {SolveDecreasing(score, -1, drop(), kNormal975),
          SolveDecreasing(score, drop(), 1, -kNormal975)};
}

}  // namespace infer
