#include "runtime/engine/predicted.h"

#include <algorithm>
#include <cmath>

namespace infer::engine {
namespace {

bool SameButRows(const Predicted& a, const Predicted& b) {
  return a.variant == b.variant && a.precision == b.precision && a.threads == b.threads &&
         a.instances == b.instances;
}

/// The one setting that they differ by. Fewer threads of a run are more runs at once.
std::optional<PredictedSetting> SettingBetween(const Predicted& a, const Predicted& b) {
  std::optional<PredictedSetting> setting;
  int differ = 0;
  const auto look = [&](PredictedSetting s, bool is_other) {
    if (!is_other) return;
    setting = s;
    ++differ;
  };
  look(PredictedSetting::kRows, a.rows != b.rows);
  look(PredictedSetting::kThreads, a.threads != b.threads || a.instances != b.instances);
  look(PredictedSetting::kVariant, a.variant != b.variant);
  look(PredictedSetting::kPrecision, a.precision != b.precision);
  return differ == 1 ? setting : std::nullopt;
}

}  // namespace

std::optional<PredictedChange> ChangeByPrediction(std::span<const Predicted> all,
                                                  const SeenRuns& seen) {
  const auto is_now = [&](const Predicted& p) {
    return SameButRows(p, all[0]) && p.rows == seen.rows;
  };
  const auto now = std::find_if(all.begin(), all.end(), is_now);
  if (now == all.end() || seen.ms <= 0) return std::nullopt;
  const double over = seen.ms / now->ms;
  if (over < 0.5 || over > 2) return std::nullopt;
  std::optional<PredictedChange> best;
  for (const Predicted& p : all) {
    const auto setting = SettingBetween(*now, p);
    if (!setting || (best && p.rows_per_s() <= best->to.rows_per_s())) continue;
    // Fewer rows, and those that were seen, are for measured times to decide.
    if (*setting == PredictedSetting::kRows && (!seen.more_rows || p.rows <= seen.max_rows))
      continue;
    if (seen.within_ms > 0 && over * p.ms * (1 + p.error) > seen.within_ms) continue;
    const double ratio = p.rows_per_s() / now->rows_per_s();
    const double error = std::hypot(now->error, p.error);
    const double low = ratio * std::max(0.0, 1 - error) - 1;
    if (low <= 0) continue;
    best = {.setting = *setting,
            .from = *now,
            .to = p,
            .seen = over,
            .low = p.instances > now->instances ? 0 : low,
            .high = ratio * (1 + error) - 1};
  }
  return best;
}

}  // namespace infer::engine
