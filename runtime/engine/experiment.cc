#include "runtime/engine/experiment.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/support/strings.h"

namespace infer::engine {
namespace {

constexpr int64_t kLeastOfEach = 10;      // successes and failures of two variants together
constexpr double kRatioAlpha = 0.001;     // of right shares that may ever pass for broken
constexpr double kPriorRequests = 100.0;  // how near to the asked shares others are looked for

}  // namespace

Status Check(const ExperimentRules& rules) {
  if (!(rules.alpha > 0 && rules.alpha < 1))
    return InvalidArgument(Cat("alpha of an experiment lies between 0 and 1, not ", rules.alpha));
  if (!(rules.effect > 0 && rules.effect < 1))
    return InvalidArgument(Cat("effect of an experiment lies between 0 and 1, not ", rules.effect));
  if (rules.least_samples < 1)
    return InvalidArgument("an experiment needs at least one sample of each variant");
  return {};
}

double LikelihoodRatio(const Trials& a, const Trials& b, double effect) {
  const int64_t successes = a.successes + b.successes;
  if (std::min(successes, a.count + b.count - successes) < kLeastOfEach) return 1;
  const auto na = static_cast<double>(a.count), nb = static_cast<double>(b.count);
  const double pooled = static_cast<double>(successes) / (na + nb);
  const double variance = pooled * (1 - pooled) * (1 / na + 1 / nb);
  const double spread = effect * effect, difference = b.rate() - a.rate();
  return std::sqrt(variance / (variance + spread)) *
         std::exp(spread * difference * difference / (2 * variance * (variance + spread)));
}

SampleRatio::SampleRatio(const std::vector<double>& shares)
    : shares_(shares), counts_(shares.size(), 0) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& s : shares_) s /= sum;
}

void SampleRatio::Count(size_t variant) {
  // The next request's odds under what was counted so far, and a prior around the asked shares.
  const double seen = static_cast<double>(counts_[variant]) + kPriorRequests * shares_[variant];
  const double of = static_cast<double>(total_) + kPriorRequests;
  log_odds_ += std::log(seen / of / shares_[variant]);
  ++counts_[variant];
  ++total_;
  broken_ |= log_odds_ > -std::log(kRatioAlpha);
}

std::string_view Name(ExperimentVerdict::Kind kind) {
  switch (kind) {
    case ExperimentVerdict::Kind::kOpen: return "open";
    case ExperimentVerdict::Kind::kWinner: return "winner";
    case ExperimentVerdict::Kind::kSampleRatio: return "sample ratio";
  }
  return "";
}

Experiment::Experiment(ExperimentRules rules, const std::vector<double>& shares)
    : rules_(rules), ratio_(shares), trials_(shares.size()) {}

void Experiment::Assigned(size_t variant) { ratio_.Count(variant); }

void Experiment::Ended(size_t variant, bool success) {
  ++trials_[variant].count;
  trials_[variant].successes += success ? 1 : 0;
  if (variant > 0) return Look(variant);
  for (size_t v = 1; v < trials_.size(); ++v) Look(v);
}

void Experiment::Look(size_t variant) {
  const Trials &first = trials_[0], &other = trials_[variant];
  if (found_.kind == ExperimentVerdict::Kind::kWinner ||
      std::min(first.count, other.count) < rules_.least_samples)
    return;
  const auto comparisons = static_cast<double>(trials_.size() - 1);
  const double p = comparisons / LikelihoodRatio(first, other, rules_.effect);
  if (p >= found_.p_value) return;
  found_.p_value = p;
  found_.variant = variant;
  if (p > rules_.alpha) return;
  found_.kind = ExperimentVerdict::Kind::kWinner;
  found_.winner = other.rate() > first.rate() ? variant : 0;
}

ExperimentVerdict Experiment::verdict() const {
  ExperimentVerdict v = found_;
  if (ratio_.broken()) v.kind = ExperimentVerdict::Kind::kSampleRatio;
  return v;
}

}  // namespace infer::engine
