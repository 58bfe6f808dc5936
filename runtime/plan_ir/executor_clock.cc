/// Profiles of runs on a device: by marks on its clock.
#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/plan_ir/executor.h"

namespace infer {
namespace {

/// How often the device's clock is compared with the host's before a profile.
constexpr int kClockRounds = 4;

}  // namespace

Status Executor::StartClocks() {
  marked_.clear();
  has_clock_ = false;
  if (plans_[0]->plan->frame->uses_device) {
    INFER_TRY(MakeEncoder());
    // Of some marks the one that came back soonest, in the middle of its way.
    double soonest = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kClockRounds; ++round) {
      const auto mark = encoder_->Mark();
      if (!mark.ok() && mark.status().code() != Code::kUnsupported) return mark.status();
      has_clock_ = mark.ok();
      if (!has_clock_) break;
      recorded_ = true;
      const double before = NowMs();
      INFER_TRY(AwaitDevice());
      const double way = NowMs() - before;
      INFER_ASSIGN(const auto times, encoder_->TakeMarks());
      if (way < soonest) device_zero_ = before + way / 2 - times.at(0);
      soonest = std::min(soonest, way);
    }
  }
  profile_start_ = NowMs();
  return {};
}

Status Executor::RecordTimed(size_t index) {
  const PlannedLaunch& launch = plans_[0]->plan->frame->launches[index];
  if (launch.crosses || !has_clock_) {
    INFER_TRY(AwaitDevice());
    const double begin = NowMs();
    INFER_TRY(Record(index));
    INFER_TRY(AwaitDevice());
    Profile(launch.step, profile_start_, begin, false, launch.is_copy);
    return {};
  }
  INFER_ASSIGN(const size_t begin, encoder_->Mark());
  INFER_TRY(Record(index));
  INFER_ASSIGN(const size_t end, encoder_->Mark());
  marked_.push_back({profile_.size(), begin, end});
  profile_.push_back({launch.step, 0, 0, 0, launch.is_copy, true});
  return {};
}

Status Executor::ReadMarks() {
  if (marked_.empty()) return {};
  INFER_ASSIGN(const auto times, encoder_->TakeMarks());
  for (const Marked& m : std::exchange(marked_, {})) {
    StepTiming& t = profile_[m.entry];
    t.start_ms = device_zero_ + times.at(m.begin) - profile_start_;
    t.duration_ms = times.at(m.end) - times.at(m.begin);
  }
  return {};
}

}  // namespace infer
