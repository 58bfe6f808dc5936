/// Which batch begins next, and where it runs.
#include <algorithm>

#include "runtime/engine/core.h"

namespace infer::engine {

/// Of how many levels of priority, from the most urgent, a run may begin. Less urgent runs that go
/// on do not count: they give their lanes up between launches (RunOptions::priority).
int Core::OpenLevels(bool aside) const {
  if (aside) return placed_[static_cast<size_t>(Place::kAside)] == 0 ? kPriorities : 0;
  int levels = 0, running = 0;
  for (int of_level : running_) {
    running += of_level;
    if (running >= options_.executor->width()) break;
    ++levels;
  }
  return levels;
}

/// Whether its runs are looked at for the memory that they take.
bool Core::IsLimited(const Version& v) const {
  return options_.memory_bytes != kNever || v.options().memory_bytes != kNever;
}

/// Bytes that activations of its next run may take, those that its context holds already at least;
/// kNever: there is no limit. No model goes for a larger run: to load it again costs more than a
/// batch gains.
int64_t Core::RoomForRun(const Version& v, int64_t used) const {
  const int64_t held = v.HeldByNext();
  int64_t room = kNever;
  if (options_.memory_bytes != kNever) room = options_.memory_bytes - loading_bytes_ - used + held;
  if (const int64_t own = v.options().memory_bytes; own != kNever)
    room = std::min(room, own - v.bytes() + held);
  return std::max(room, held);
}

/// Of all models what may begin now and comes first, else when something may.
std::pair<Version*, RequestQueue::Choice> Core::Choose(int64_t now_ns, bool aside, int levels) {
  Version* best = nullptr;
  RequestQueue::Choice chosen;
  std::optional<int64_t> used;
  const auto look = [&](Version& v) {
    if (v.queue.empty() || v.idle.empty() || v.aside != aside) return;
    RequestQueue::Known known{.times = [&v](const ShapeKey& shape) { return v.TimesOf(shape); }};
    int64_t room = kNever;
    if (v.batches() && (IsLimited(v) || v.refused_memory())) {
      if (!used && options_.memory_bytes != kNever) used = UsedBytes();
      room = RoomForRun(v, used.value_or(0));
      known.rows = [&v, &room](const ShapeKey& shape, int64_t most) {
        return v.MemoryOf(shape).RowsWithin(room, most);
      };
    }
    const auto c = v.queue.Choose(v.options().batch, now_ns, v.run_ns, options_.ageing_ns,
                                  closed_ || v.superseded, levels, known);
    const int64_t next_ns = std::min(chosen.next_ns, c.next_ns);
    if (c.bucket && (!best || c.order < chosen.order)) {
      best = &v;
      chosen = c;
    }
    chosen.next_ns = next_ns;
  };
  for (auto& [name, m] : models_) {
    for (const auto& v : m.old) look(*v);
    if (m.current) look(*m.current);
  }
  return {best, chosen};
}

/// Begins what may begin, and sees to it that the engine wakes when the next may or must end.
void Core::Pump(int64_t now_ns, Todo& todo) {
  Expire(now_ns, todo);
  ForgetIdle(now_ns, todo);
  UseRoom(todo);
  int64_t wake_ns = deadlines_.empty() ? kNever : deadlines_.begin()->first;
  if (!idle_.empty()) wake_ns = std::min(wake_ns, std::get<0>(*idle_.begin()));
  for (const bool aside : {false, true})
    for (int levels = OpenLevels(aside); levels > 0; levels = OpenLevels(aside)) {
      const auto [version, choice] = Choose(now_ns, aside, levels);
      if (!version) {
        wake_ns = std::min(wake_ns, choice.next_ns);
        break;
      }
      todo.begun.push_back(Form(*version, choice, now_ns, levels));
    }
  if (wake_ns == kNever || (!wakes_.empty() && *wakes_.begin() <= wake_ns)) return;
  wakes_.insert(wake_ns);
  todo.wakes.push_back(wake_ns);
}

namespace {

/// Others of its shape waited.
Single WhyAlone(const BatchAdvice& advice) {
  switch (advice.by) {
    case BatchAdvice::By::kRules: return Single::kRows;
    case BatchAdvice::By::kMeasured: return Single::kSlower;
    case BatchAdvice::By::kTrial: return Single::kTried;
    case BatchAdvice::By::kDeadline: return Single::kLate;
    case BatchAdvice::By::kMemory: return Single::kMemory;
  }
  return Single::kRows;
}

}  // namespace

BatchPtr Core::Form(Version& version, const RequestQueue::Choice& choice, int64_t now_ns,
                    int levels) {
  const int64_t in_bucket = choice.bucket->size(), waiting = version.queue.state().requests;
  std::vector<PendingPtr> taken =
      version.queue.Take(*choice.bucket, choice.advice.rows, now_ns, options_.ageing_ns, levels);
  auto batch = std::make_shared<Batch>();
  batch->priority = Priority::kLow;
  int64_t rows = 0;
  for (PendingPtr& p : taken) {
    INFER_CHECK(p->Advance(State::kQueued, State::kBatched));
    p->batch = batch.get();
    p->outcome.phases.queue_ns = now_ns - p->came_ns;
    rows += p->rows;
    batch->priority = std::min(batch->priority, p->request.priority);
    batch->items.push_back({std::move(p)});
  }
  const PendingPtr& first = batch->items[0].request;
  batch->version = first->version;
  batch->shape = first->shape;
  batch->advice = choice.advice;
  if (choice.advice.by == BatchAdvice::By::kTrial)
    version.BeginTrial(batch->shape, choice.advice.tries);
  int64_t expected = 0;
  if (IsLimited(version)) {
    expected = version.MemoryOf(batch->shape).Bytes(rows);
    // A request that runs though it may not fit takes room from nobody before that is known.
    const int64_t used = options_.memory_bytes == kNever ? 0 : UsedBytes();
    if (expected > RoomForRun(version, used)) expected = 0;
  }
  batch->context = version.TakeIdle();
  if (expected > 0) version.Expect(*batch->context, expected);
  batch->formed_ns = now_ns;
  batch->chosen = batch->live = static_cast<int64_t>(batch->items.size());
  ++version.running;
  version.running_requests += batch->live;
  batches_.insert(batch.get());
  FindPlace(*batch);

  ModelStats& stats = models_.at(version.model()).stats;
  ++stats.runs;
  ++stats.fired[static_cast<size_t>(choice.why)];
  ++stats.batch_rows[rows];
  if (batch->items.size() > 1) return batch;
  const Single why = !version.batches() ? Single::kModel
                     : in_bucket > 1    ? WhyAlone(choice.advice)
                     : waiting > 1      ? Single::kShape
                                        : Single::kNoneOther;
  ++stats.single[static_cast<size_t>(why)];
  return batch;
}

void Core::FindPlace(Batch& batch) {
  const bool full = placed_[static_cast<size_t>(Place::kPool)] >= options_.executor->width();
  batch.place = batch.version->aside ? Place::kAside : full ? Place::kBeside : Place::kPool;
  ++placed_[static_cast<size_t>(batch.place)];
  if (batch.place != Place::kAside) ++running_[static_cast<size_t>(batch.priority)];
}

void Core::LeavePlace(const Batch& batch) {
  --placed_[static_cast<size_t>(batch.place)];
  if (batch.place != Place::kAside) --running_[static_cast<size_t>(batch.priority)];
}

}  // namespace infer::engine
