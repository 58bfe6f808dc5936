#include "tools/infer_bench/predict/advice.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer::bench {
namespace {

/// Where no family tells what it errs by.
constexpr double kUnknownError = 0.5;

/// The one knob that two settings differ by. More threads of a run are fewer lanes.
std::optional<PredictedKnob> KnobBetween(const PredictedSetting& a, const PredictedSetting& b) {
  std::optional<PredictedKnob> knob;
  int differ = 0;
  for (const auto& [k, is] :
       {std::pair(PredictedKnob::kBatch, a.batch != b.batch),
        std::pair(PredictedKnob::kLanes, a.threads != b.threads || a.lanes != b.lanes),
        std::pair(PredictedKnob::kVariant, a.path != b.path),
        std::pair(PredictedKnob::kPrecision, a.precision != b.precision)}) {
    if (!is) continue;
    knob = k;
    ++differ;
  }
  return differ == 1 ? knob : std::nullopt;
}

bool Keeps(const PredictedSetting& s, double within_ms) {
  return within_ms <= 0 || s.ms * (1 + s.error) <= within_ms;
}

/// The gain of changing `from` into `to` that errors cannot have made; nullopt: none.
std::optional<PredictedAdvice> Gain(std::span<const PredictedSetting> all, size_t from, size_t to,
                                    double within_ms) {
  const PredictedSetting &a = all[from], &b = all[to];
  const auto knob = KnobBetween(a, b);
  if (!knob || !Keeps(b, within_ms)) return std::nullopt;
  const double ratio = b.samples_per_s() / a.samples_per_s(), error = std::hypot(a.error, b.error);
  PredictedAdvice advice{.knob = *knob,
                         .from = from,
                         .to = to,
                         .keeps_limit = !Keeps(a, within_ms),
                         .low = ratio * std::max(0.0, 1 - error) - 1,
                         .high = ratio * (1 + error) - 1};
  if (advice.low <= 0 && !advice.keeps_limit) return std::nullopt;
  // That runs at once do not slow each other is no prediction.
  if (b.lanes > a.lanes) advice.low = std::min(advice.low, 0.0);
  return advice;
}

}  // namespace

std::string PredictedSetting::Name() const {
  return Cat(path, ", ", precision, ", batch ", batch, ", ", threads, " threads, ", lanes,
             " lanes");
}

double ErrorOf(const Prediction& p, const LaneProfile& profile) {
  const auto any = profile.families.find("any");
  const double general = any == profile.families.end() || any->second.held_out == 0
                             ? kUnknownError
                             : any->second.regret_median;
  std::map<std::string, double> by_family;
  for (const StepPrediction& s : p.steps) by_family[s.family] += s.ms;
  double all_ms = 0, squares = 0;
  for (const auto& [name, ms] : by_family) {
    const auto family = profile.families.find(name);
    const double of_family = family == profile.families.end() || family->second.held_out == 0
                                 ? general
                                 : family->second.regret_median;
    all_ms += ms;
    squares += ms * of_family * ms * of_family;
  }
  return all_ms > 0 ? std::sqrt(squares) / all_ms : general;
}

std::string_view Name(PredictedKnob k) {
  switch (k) {
    case PredictedKnob::kBatch: return "batch";
    case PredictedKnob::kLanes: return "lanes";
    case PredictedKnob::kVariant: return "variant";
    case PredictedKnob::kPrecision: return "precision";
  }
  return "";
}

AdvisedByPrediction AdviseByPrediction(std::span<const PredictedSetting> settings, size_t now,
                                       double within_ms) {
  AdvisedByPrediction out{.changes = {}, .chosen = now, .none = {}};
  // Each change keeps the limit from the first on, and has more samples per second then.
  for (;;) {
    std::optional<PredictedAdvice> best;
    double most = 0;
    for (size_t to = 0; to < settings.size(); ++to) {
      const auto advice = Gain(settings, out.chosen, to, within_ms);
      if (!advice || settings[to].samples_per_s() <= most) continue;
      best = advice;
      most = settings[to].samples_per_s();
    }
    if (!best) break;
    out.chosen = best->to;
    out.changes.push_back(*best);
  }
  if (!out.changes.empty()) return out;
  out.none = Keeps(settings[now], within_ms)
                 ? "no one change is predicted to gain more than predictions are wrong by"
                 : Cat("no one change is predicted to keep ", Rounded(within_ms, 3), " ms");
  return out;
}

}  // namespace infer::bench
