/// Batches on their way through an instance, and ends told to callers.
#include <algorithm>

#include "lib/support/exceptions.h"
#include "runtime/engine/core.h"
#include "runtime/engine/drift.h"

namespace infer::engine {
namespace {

/// Callbacks that a thread is about to call; by thread, as one may be called below another.
struct Telling {
  const Core* core;
  std::deque<PendingPtr> rest;
  Telling* outer;
};
thread_local Telling* t_telling = nullptr;

infer::Priority ForLanes(Priority p) {
  switch (p) {
    case Priority::kHigh: return infer::Priority::kHigh;
    case Priority::kNormal: return infer::Priority::kNormal;
    case Priority::kLow: break;
  }
  return infer::Priority::kLow;
}

}  // namespace

void Core::Do(Todo todo) {
  for (const BatchPtr& b : todo.begun)
    options_.executor->Post([self = shared_from_this(), b] { self->Begin(b); }, b->place);
  for (const BatchPtr& b : todo.stopped) b->stop.request_stop();
  for (int64_t ns : todo.wakes)
    options_.executor->WakeAt(ns, [core = weak_from_this(), ns] {
      if (const auto self = core.lock()) self->Wake(ns);
    });
  if (todo.load)
    options_.executor->Post([self = shared_from_this()] { self->LoadNext(); }, Place::kLoad);
  if (todo.deliver) options_.executor->Deliver([self = shared_from_this()] { self->Deliver(); });
  todo.released.clear();  // a callback may take long
  Tell(std::move(todo.told));
}

/// Requests of the attempt.
std::vector<RunPart> Core::PartsOf(const Batch& batch) {
  std::vector<RunPart> parts;
  for (size_t i = batch.first; i < batch.last; ++i) {
    const Pending& p = *batch.items[i].request;
    parts.push_back({.inputs = &p.request.inputs,
                     .rows = p.rows,
                     .length = p.length,
                     .padded_to = batch.as_they_are ? 0 : p.padded_to});
  }
  return parts;
}

/// With the mutex held: its padded requests are run as they are.
void Core::Refuted(const Batch& batch) {
  ModelStats& stats = models_.at(batch.version->model()).stats;
  stats.padding[static_cast<size_t>(Padding::kRefuted)] += static_cast<int64_t>(batch.items.size());
}

/// On a thread of its place, or of a caller who waits for it: the first to come runs it.
void Core::Begin(const BatchPtr& batch) {
  {
    const std::lock_guard lock(mutex_);
    if (batch->begun) return;
    computing_ += batch->place == Place::kAside ? 0 : 1;
    batch->begun = true;
    DropEnded(*batch);
    for (const BatchItem& item : batch->items)
      INFER_CHECK(item.request->Advance(State::kBatched, State::kRunning));
  }
  if (batch->items.empty()) return Finish(batch);
  Attempt(batch, 0, batch->items.size());
}

/// Leaves out items that have ended and whose end others tell.
void Core::DropEnded(Batch& batch) {
  std::erase_if(batch.items, [](const BatchItem& item) {
    if (!item.request->handed) return false;
    item.request->batch = nullptr;
    return true;
  });
}

void Core::Attempt(const BatchPtr& batch, size_t first, size_t last) {
  batch->first = first;
  batch->last = last;
  options_.executor->Run([this, batch] { Compute(*batch); },
                         [self = shared_from_this(), batch] { self->Attempted(batch); });
}

void Core::Compute(Batch& batch) {
  batch.started_ns = NowNs();
  const Home* home = batch.version->HomeOf(*batch.context);
  const PinScope there(home ? &home->masks : nullptr);
  try {
    const std::vector<RunPart> parts = PartsOf(batch);
    batch.status = BindStacked(*batch.version, *batch.context, parts);
    if (!batch.status.ok()) return;
    if (parts.size() > 1) {
      Todo todo;
      {
        const std::lock_guard lock(mutex_);
        batch.stacked = true;
        for (const BatchItem& item : batch.items) {
          if (!IsEnd(item.request->state()) || item.request->handed) continue;
          item.request->handed = todo.deliver = true;  // it had to wait for the stacking
          deliveries_.push_back(item.request);
        }
      }
      Do(std::move(todo));
    }
    batch.started_ns = NowNs();
    // Lanes are the program's to take: a lease around it would keep them to its end.
    batch.status =
        batch.context->Run({.stop = batch.stop.get_token(), .priority = ForLanes(batch.priority)});
  } catch (...) {
    batch.status = StatusOfException("while a request was run");
  }
}

/// What the attempt gave, to its items.
void Core::Keep(Batch& batch) {
  const int64_t ended_ns = NowNs();
  const MemoryInfo took = batch.context->memory();
  if (took.activation_bytes() >= batch.took.activation_bytes()) batch.took = took;
  if (batch.run_ns == 0) {
    batch.run_ns = ended_ns - batch.started_ns;
    int64_t rows = 0;
    for (size_t i = batch.first; i < batch.last; ++i) rows += batch.items[i].request->rows;
    if (batch.status.ok()) {
      batch.ran_rows = rows;
      batch.ran_bytes = took.activation_bytes();
    } else if (batch.status.code() == Code::kResource && batch.last - batch.first > 1) {
      batch.refused_rows = rows;
    }
  }
  const std::vector<RunPart> parts = PartsOf(batch);
  int64_t total = 0;
  for (const RunPart& p : parts) total += p.rows;
  std::vector<std::vector<Datum>> outputs(parts.size());
  if (batch.status.ok()) {
    try {
      auto split = SplitOutputs(*batch.version, *batch.context, parts);
      if (split.ok())
        outputs = *std::move(split);
      else
        batch.status = split.status();
    } catch (...) {
      batch.status = StatusOfException("while outputs were copied");
    }
  }
  for (size_t i = batch.first; i < batch.last; ++i) {
    BatchItem& item = batch.items[i];
    item.status = batch.status;
    item.outputs = std::move(outputs[i - batch.first]);
    item.started_ns = batch.started_ns;
    item.ended_ns = ended_ns;
    item.rows = total;
    item.padded_to = parts[i - batch.first].padded_to;
  }
}

/// A batch that failed is run again, each request alone and as it is: who is not to blame succeeds.
void Core::Attempted(const BatchPtr& batch) {
  Keep(*batch);
  const size_t tried = batch->last - batch->first;
  size_t next = batch->last;
  const bool padded = !batch->as_they_are && batch->items[batch->first].request->padded_to > 0;
  if (tried > 1 || (padded && !batch->status.ok())) {
    if (batch->status.ok() || batch->stop.stop_requested()) return Finish(batch);
    const std::lock_guard lock(mutex_);
    batch->stacked = false;
    DropEnded(*batch);
    next = 0;
    batch->as_they_are = true;
    if (padded) Refuted(*batch);
  }
  // An item that has ended meanwhile is told at the end: nothing needs to run for it.
  while (next < batch->items.size() && IsEnd(batch->items[next].request->state())) ++next;
  if (next == batch->items.size()) return Finish(batch);
  {
    const std::lock_guard lock(mutex_);
    ModelStats& stats = models_.at(batch->version->model()).stats;
    ++stats.runs;
    ++stats.single[static_cast<size_t>(Single::kRerun)];
  }
  Attempt(batch, next, next + 1);
}

void Core::Finish(const BatchPtr& batch) {
  Todo todo;
  const std::shared_ptr<DriftWatch> drift = batch->version->options().drift;
  {
    const std::lock_guard lock(mutex_);
    const int64_t now_ns = NowNs();
    Version& version = *batch->version;
    bool succeeded = false;
    for (BatchItem& item : batch->items) {
      Pending& p = *item.request;
      p.batch = nullptr;
      if (p.handed) continue;
      const bool ok = item.status.ok();
      Phases& phases = p.outcome.phases;
      if (item.ended_ns > 0) {
        phases.batch_ns = std::max<int64_t>(0, item.started_ns - batch->formed_ns);
        phases.compute_ns = item.ended_ns - item.started_ns;
      }
      succeeded |= ok;
      const bool ended = End(p, ok ? State::kSucceeded : State::kFailed, item.status, now_ns);
      if (ended) StepEnded(p, ok ? &item.outputs : nullptr, now_ns, todo);
      if (ended && ok) {
        p.outcome.outputs = std::move(item.outputs);
        version.factors->Add(p.requests_before, item.rows, p.bytes, phases.total_ns);
        p.outcome.batch_rows = item.rows;
        p.outcome.padded_to = item.padded_to;
      }
      p.handed = true;
      todo.told.push_back(item.request);
    }
    if (batch->run_ns > 0) version.Ran(batch->run_ns);
    // With all that keeps the instance from the next run: callbacks of the run before, stacking,
    // splitting. Of a short model that is half of the time.
    if (batch->ran_rows > 0) {
      const int64_t ns = now_ns - batch->formed_ns;
      version.RanBatch(batch->shape, batch->advice, batch->ran_rows, ns);
      if (const auto it = models_.find(version.model()); it != models_.end())
        it->second.stats.run_times[batch->ran_rows].Add(static_cast<double>(ns));
    }
    version.ran |= succeeded;
    --version.running;
    version.running_requests -= batch->chosen;
    LearnMemory(*batch, todo);
    version.GiveBack(std::move(batch->context));
    batches_.erase(batch.get());
    LeavePlace(*batch);
    computing_ -= batch->place == Place::kAside ? 0 : 1;
    if (version.superseded) ReleaseVersions(models_.at(version.model()), todo);
    Pump(now_ns, todo);
    if (waiting_ > 0) quiet_.notify_all();
  }
  batch->items.clear();
  // Only this thread tells these requests: until then their values stay.
  for (const PendingPtr& p : todo.told)
    if (drift && p->outcome.end == State::kSucceeded)
      drift->See(p->request.inputs, p->outcome.outputs);
  Do(std::move(todo));
}

void Core::Reject(const PendingPtr& p, Status why) {
  INFER_CHECK(p->End(State::kRejected));
  p->outcome.end = State::kRejected;
  p->outcome.status = std::move(why);
  p->handed = true;
  Tell({p});
}

void Core::Tell(std::vector<PendingPtr> told) {
  if (told.empty()) return;
  // All before the first callback: one that blocks hides none of the others from a snapshot.
  for (const PendingPtr& p : told) {
    if (forked()) break;
    if (p->times) p->times->Record(p->outcome.end, p->outcome.phases, NowNs());
    if (p->version) p->version->times()->Record(p->outcome.end, p->outcome.phases);
    if (options_.log) Log(*p);
  }
  Telling here{this, {told.begin(), told.end()}, t_telling};
  told.clear();
  t_telling = &here;
  while (!here.rest.empty()) {
    const PendingPtr p = std::move(here.rest.front());
    here.rest.pop_front();
    CallBack(*p);
  }
  t_telling = here.outer;
}

void Core::Log(const Pending& p) {
  const Outcome& o = p.outcome;
  try {
    options_.log->Add({.number = p.id,
                       .model = p.request.model,
                       .version = o.version,
                       .priority = p.request.priority,
                       .end = o.end,
                       .came_ns = p.came_ns,
                       .phases = o.phases,
                       .batch_rows = o.batch_rows});
  } catch (...) {
    // No memory for one more: a gap in a trace, and no reason to end the process.
  }
}

void Core::Deliver() {
  std::vector<PendingPtr> told;
  {
    const std::lock_guard lock(mutex_);
    told.assign(deliveries_.begin(), deliveries_.end());
    deliveries_.clear();
  }
  Tell(std::move(told));
}

void Core::CallBack(Pending& p) {
  const bool inherited = forked();
  p.outcome.metadata = std::move(p.request.metadata);
  p.request.inputs.clear();
  p.version = nullptr;
  bool threw = false;
  try {
    const Callback callback = std::exchange(p.callback, nullptr);
    if (callback) callback(std::move(p.outcome));
  } catch (...) {
    threw = true;
  }
  if (inherited) return;
  const std::lock_guard lock(mutex_);
  outstanding_ -= p.shadow ? 0 : 1;
  if (const auto it = models_.find(p.request.model); threw && it != models_.end())
    ++it->second.stats.thrown;
  if (waiting_ > 0) quiet_.notify_all();
}

/// Waits until every callback has returned and no batch computes. Within a callback it calls those
/// that only this thread would call, and does not wait for itself.
void Core::AwaitQuiet() {
  int64_t mine = 0;
  for (Telling* t = t_telling; t; t = t->outer) {
    if (t->core != this) continue;
    ++mine;
    while (!t->rest.empty()) {
      const PendingPtr p = std::move(t->rest.front());
      t->rest.pop_front();
      CallBack(*p);
    }
  }
  std::unique_lock lock(mutex_);
  in_wait_ += mine;
  ++waiting_;
  quiet_.notify_all();  // others wait for fewer
  for (;;) {
    quiet_.wait(lock, [&] {
      return (mine > 0 && !deliveries_.empty()) || (outstanding_ <= in_wait_ && computing_ == 0);
    });
    if (mine == 0 || deliveries_.empty()) break;
    lock.unlock();
    Deliver();
    lock.lock();
  }
  in_wait_ -= mine;
  --waiting_;
}

}  // namespace infer::engine
