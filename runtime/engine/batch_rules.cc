#include "runtime/engine/batch_rules.h"

namespace infer::engine {

std::string_view Name(Fired f) {
  switch (f) {
    case Fired::kFull: return "full";
    case Fired::kWaited: return "waited";
    case Fired::kDeadline: return "deadline";
    case Fired::kPriority: return "priority";
    case Fired::kDrain: return "drain";
    case Fired::kEnough: return "enough";
    case Fired::kTrial: return "trial";
    case Fired::kMemory: return "memory";
  }
  return "";
}

std::string_view Name(Single s) {
  switch (s) {
    case Single::kModel: return "model";
    case Single::kNoneOther: return "none other";
    case Single::kShape: return "shape";
    case Single::kRows: return "rows";
    case Single::kRerun: return "rerun";
    case Single::kSlower: return "slower";
    case Single::kTried: return "tried";
    case Single::kLate: return "late";
    case Single::kMemory: return "memory";
  }
  return "";
}

std::string_view Name(Padding p) {
  switch (p) {
    case Padding::kPadded: return "padded";
    case Padding::kExact: return "exact";
    case Padding::kLonger: return "longer";
    case Padding::kShort: return "short";
    case Padding::kMask: return "mask";
    case Padding::kRefuted: return "refuted";
  }
  return "";
}

Decision Decide(const BatchRules& rules, const Waiters& w, int64_t run_ns, bool draining) {
  constexpr int64_t kAtOnce = 0;
  if (w.rows >= rules.max_rows) return {kAtOnce, Fired::kFull};
  if (draining) return {kAtOnce, Fired::kDrain};
  if (w.has_high && !rules.high_waits) return {kAtOnce, Fired::kPriority};
  const Decision waited{After(w.oldest_ns, rules.max_delay_ns), Fired::kWaited};
  if (w.earliest_deadline_ns == kNever) return waited;
  const int64_t last_ns = run_ns > 0 ? w.earliest_deadline_ns - 2 * run_ns : kAtOnce;
  return last_ns < waited.at_ns ? Decision{last_ns, Fired::kDeadline} : waited;
}

}  // namespace infer::engine
