/// Commands of a device that are the same in each run are recorded once, and handed over again.
#include <algorithm>

#include "runtime/plan_ir/executor.h"

namespace infer {
namespace {

/// Of the plans that ran last, and of one plan: caches of a decoder that take turns make two.
constexpr size_t kRecordedPlans = 16, kRecordedRuns = 4;

bool Same(const std::weak_ptr<DeviceMemory>& a, const std::shared_ptr<DeviceMemory>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

}  // namespace

CommandInfo Executor::commands() const {
  CommandInfo all = commands_;
  if (encoder_) all += encoder_->commands();
  return all;
}

bool Executor::IsCommand(const ShapePlan& plan, size_t l) const {
  const PlannedLaunch& launch = plan.frame->launches[l];
  return launch.crosses ||
         (plan.code[l] && !launch.is_late && launch.watch < 0 && IsOnDevice(launch));
}

void Executor::FindSegments(Bound& bound) const {
  const ShapePlan& plan = *bound.plan;
  const auto space_of = [&](int b) { return plan.buffers[static_cast<size_t>(b)].space; };
  Segment* open = nullptr;
  for (size_t l = 0; l < plan.frame->launches.size(); ++l) {
    const PlannedLaunch& launch = plan.frame->launches[l];
    if (!IsCommand(plan, l)) {
      open = nullptr;
      continue;
    }
    const bool downloads = launch.crosses && space_of(launch.args[1]) == MemorySpace::kHost;
    const bool reads = launch.reads_host || (launch.crosses && !downloads);
    // What is read may be on its way to the host still.
    if (!open || (open->downloads && reads)) open = &bound.segments.emplace_back(Segment{l, l});
    open->end = l + 1;
    open->downloads |= downloads;
    if (launch.crosses || reads) open->renewed.push_back(l);
  }
}

Executor::RecordedRun* Executor::RecordedRunOf(const RunOptions& options) {
  Bound& bound = *plans_[0];
  // The plan of extents that come once is not worth it: its first run hands commands over once.
  if (options.profile || !bound.has_run || !bound.keeps_commands || bound.segments.empty())
    return nullptr;
  std::erase_if(bound.recorded, [](const RecordedRun& r) {
    return std::ranges::any_of(r.resident, [](const auto& m) { return m.expired(); });
  });
  const auto fits = [&](const RecordedRun& r) {
    for (size_t i = 0; i < r.resident.size(); ++i)
      if (!Same(r.resident[i], ResidentAt(bound.resident[i]))) return false;
    return true;
  };
  const auto found = std::ranges::find_if(bound.recorded, fits);
  if (found != bound.recorded.end()) {
    std::rotate(bound.recorded.begin(), found, found + 1);
    return &bound.recorded.front();
  }
  if (plans_.size() > kRecordedPlans) plans_[kRecordedPlans]->recorded.clear();
  if (bound.recorded.size() == kRecordedRuns) bound.recorded.pop_back();
  RecordedRun fresh;
  for (const int b : bound.resident) fresh.resident.emplace_back(ResidentAt(b));
  fresh.segments.resize(bound.segments.size());
  return &*bound.recorded.insert(bound.recorded.begin(), std::move(fresh));
}

Status Executor::RunSegment(size_t index, RecordedRun& run) {
  const Segment& segment = plans_[0]->segments[index];
  std::shared_ptr<RecordedCommands>& kept = run.segments[index];
  INFER_TRY(MakeEncoder());
  if (!plans_[0]->keeps_commands || !encoder_->keeps_recordings()) {
    plans_[0]->keeps_commands = false;
    for (size_t l = segment.begin; l < segment.end; ++l) INFER_TRY(Record(l));
    return {};
  }
  // Memory on the way to the device and back is the same for all segments.
  if (!under_way_.empty()) INFER_TRY(AwaitDevice());
  return kept ? ReplaySegment(segment, kept) : RecordSegment(segment, kept);
}

Status Executor::RecordSegment(const Segment& segment, std::shared_ptr<RecordedCommands>& kept) {
  INFER_TRY(encoder_->BeginRecording());
  for (size_t l = segment.begin; l < segment.end; ++l) INFER_TRY(Record(l));
  INFER_ASSIGN(kept, encoder_->EndRecording());
  plans_[0]->keeps_commands = kept != nullptr;
  return SubmitRecorded();
}

Status Executor::ReplaySegment(const Segment& segment,
                               const std::shared_ptr<RecordedCommands>& kept) {
  const Bound& bound = *plans_[0];
  INFER_TRY(encoder_->Replay(kept));
  recorded_ = true;
  for (const size_t l : segment.renewed) {
    const PlannedLaunch& launch = bound.plan->frame->launches[l];
    if (!launch.crosses) {
      INFER_TRY(bound.plan->code[l]->Renew(*encoder_, DeviceArgs(l)));
      continue;
    }
    const auto from = static_cast<size_t>(launch.args[0]), to = static_cast<size_t>(launch.args[1]);
    if (IsUpload(launch)) {
      INFER_TRY(encoder_->Upload(bound.views[to], bound.pointers[from]));
    } else {
      downloads_ = true;
      INFER_TRY(encoder_->Download(bound.pointers[to], bound.views[from]));
    }
  }
  return SubmitRecorded();
}

void Executor::ForgetRecorded() {
  for (const auto& bound : plans_) bound->recorded.clear();
}

}  // namespace infer
