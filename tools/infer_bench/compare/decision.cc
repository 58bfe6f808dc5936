#include "tools/infer_bench/compare/decision.h"

#include <algorithm>
#include <cmath>

#include "lib/support/rank_tests.h"
#include "lib/support/status.h"

namespace infer {
namespace {

constexpr int kLooks[] = {3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
/// Fresh starts after which a suspicion may count as confirmed early, at the higher confidence.
constexpr int kEarlyConfirming[] = {2, 3};
constexpr int kLeastConfirming = 3;
static_assert(kLooks[0] + kLeastConfirming == DecisionOptions::kLeastMaxStarts);
/// From so many starts on ranks reach 99 %, and starts far off the others no longer spoil it all.
constexpr size_t kRanked = 8;

template <size_t N>
bool Holds(const int (&list)[N], int value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

Estimate LogInterval(std::span<const double> values, double confidence) {
  return values.size() < kRanked ? MeanInterval(values, confidence)
                                 : HodgesLehmann(values, confidence);
}

Estimate AsShare(const Estimate& log) {
  return {std::expm1(log.value), std::expm1(log.low), std::expm1(log.high)};
}

bool LeavesOutZero(const Estimate& e) { return e.low > 0 || e.high < 0; }

}  // namespace

std::string_view Name(Verdict v) {
  switch (v) {
    case Verdict::kSame: return "same";
    case Verdict::kFaster: return "faster";
    case Verdict::kSlower: return "slower";
    case Verdict::kInconclusive: return "inconclusive";
  }
  return "";
}

Estimate Decision::Effect(double confidence) const {
  return AsShare(LogInterval(log_ratios_, confidence));
}

Attempt Decision::Record(std::span<const double> values, double confidence, bool confirming) {
  return {static_cast<int>(values.size()), confirming, AsShare(LogInterval(values, confidence)),
          "go on"};
}

void Decision::Add(double log_ratio) {
  INFER_CHECK(std::isfinite(log_ratio) && !decided());
  log_ratios_.push_back(log_ratio);
  if (suspected_at_ > 0)
    Confirm();
  else if (Holds(kLooks, starts()))
    Look();
}

void Decision::Look() {
  Attempt a = Record(log_ratios_, options_.confidence, false);
  if (LeavesOutZero(a.effect) && std::abs(a.effect.value) >= options_.min_effect) {
    a.outcome = "suspected";
    suspected_at_ = starts();
    suspect_slower_ = a.effect.value > 0;
  } else {
    Attempt same = Record(log_ratios_, options_.same_confidence, false);
    if (same.effect.low > -options_.min_effect && same.effect.high < options_.min_effect) {
      a = std::move(same);
      a.outcome = "same";
      verdict_ = Verdict::kSame;
    }
  }
  attempts_.push_back(std::move(a));
}

/// As many fresh starts as the suspicion had, or what is left of max_starts, but at least three:
/// where fewer are left, a suspicion stays one unless the early look at two confirms it.
void Decision::Confirm() {
  const int wanted =
      std::max(kLeastConfirming, std::min(suspected_at_, options_.max_starts - suspected_at_));
  const int fresh = starts() - suspected_at_;
  const bool last = fresh >= wanted;
  if (!last && !Holds(kEarlyConfirming, fresh)) return;
  const std::span<const double> after =
      std::span<const double>(log_ratios_).subspan(static_cast<size_t>(suspected_at_));
  Attempt a = Record(after, last ? options_.confirm_confidence : options_.confidence, true);
  const bool agrees = LeavesOutZero(a.effect) && (a.effect.value > 0) == suspect_slower_ &&
                      std::abs(Effect().value) >= options_.min_effect;
  if (agrees) {
    a.outcome = "confirmed";
    verdict_ = suspect_slower_ ? Verdict::kSlower : Verdict::kFaster;
  } else if (last) {
    a.outcome = "not confirmed";
    suspected_at_ = 0;
  }
  if (agrees || last) attempts_.push_back(std::move(a));
}

}  // namespace infer
