/// Requests in, batches formed, ends decided: all that happens under the engine's mutex.
#include "runtime/engine/core.h"

#include <algorithm>

#include "lib/support/exceptions.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"

namespace infer::engine {

bool Core::Knows(const std::string& model) const {
  const std::lock_guard lock(mutex_);
  const auto it = models_.find(model);
  return it != models_.end() && it->second.IsThere();
}

ModelLoad Core::LoadOf(const std::string& model, const std::string& sequence) const {
  const std::lock_guard lock(mutex_);
  const auto it = models_.find(model);
  if (it == models_.end() || !it->second.current) return {};
  const Version& v = *it->second.current;
  return {.ready = v.ran,
          .holds_sequence = !sequence.empty() && HolderOf(it->second, sequence) != nullptr,
          .waiting = v.queue.state().requests,
          .running = v.running_requests,
          .waiting_rows = v.queue.rows(),
          .max_rows = v.options().batch.max_rows,
          .instances = v.options().instances,
          .busy = v.running,
          .run_ns = v.run_ns};
}

Result<std::shared_ptr<const Program>> Core::ProgramOf(const std::string& model) const {
  const std::lock_guard lock(mutex_);
  const auto it = models_.find(model);
  if (it == models_.end() || !it->second.current)
    return InvalidArgument(Cat("there is no model '", model, "'"));
  return it->second.current->shared_program();
}

Status Core::SetShadow(const std::string& model, bool shadow) {
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    const auto it = models_.find(model);
    if (it == models_.end() || !it->second.current)
      return shadow ? InvalidArgument(Cat("there is no model '", model, "'")) : Status();
    Model& m = it->second;
    const Version& v = *m.current;
    if (shadow && (!m.old.empty() || !v.queue.empty() || v.running > 0))
      return InvalidArgument(Cat("model '", model, "' has requests to answer: it is no shadow"));
    const int64_t now_ns = NowNs();
    m.shadow = m.current->aside = shadow;
    EndShadows(m, now_ns, todo);
    Pump(now_ns, todo);
  }
  Do(std::move(todo));
  return {};
}

void Core::EndShadows(const Model& m, int64_t now_ns, Todo& todo) {
  std::vector<PendingPtr> copies;
  const auto take = [&](const Version& v) {
    for (PendingPtr& p : v.queue.All())
      if (p->shadow) copies.push_back(std::move(p));
  };
  for (const auto& v : m.old) take(*v);
  if (m.current) take(*m.current);
  for (const Batch* batch : batches_)
    for (const BatchItem& item : batch->items)
      if (item.request->shadow && &models_.at(batch->version->model()) == &m)
        copies.push_back(item.request);
  for (const PendingPtr& p : copies)
    EndEarly(*p, State::kCancelled, Cancelled("nobody waits for the shadow"), now_ns, todo);
}

void Core::Refuse(Request request, Callback callback, Status why) {
  const auto p = std::make_shared<Pending>();
  p->request = std::move(request);
  p->callback = std::move(callback);
  {
    const std::lock_guard lock(mutex_);
    ++outstanding_;
  }
  Reject(p, std::move(why));
}

void Core::Submit(Request request, Callback callback, Entry entry) {
  const auto p = std::make_shared<Pending>();
  p->request = std::move(request);
  p->callback = std::move(callback);
  p->shadow = entry.shadow;
  if (entry.taken) *entry.taken = p;
  if (forked())
    return Reject(p, InvalidArgument("the engine was made before this process was forked: make "
                                     "one in the child"));
  p->came_ns = NowNs();
  p->deadline_ns = After(p->came_ns, p->request.timeout_ns);
  Todo todo;
  Status refused;
  BatchPtr mine;
  {
    const std::lock_guard lock(mutex_);
    outstanding_ += p->shadow ? 0 : 1;
    refused = Admit(*p, entry);
    if (refused.ok()) {
      if (p->deadline_ns != kNever) deadlines_.emplace(p->deadline_ns, p.get());
      Enqueue(p, todo);
      if (p->request.stop.stop_requested() || (entry.continues && shut_))
        EndEarly(*p, State::kCancelled, Cancelled("the request was cancelled"), p->came_ns, todo);
      Pump(p->came_ns, todo);
      if (entry.helps) mine = TakeOwn(*p, todo);
    }
  }
  if (!refused.ok()) return Reject(p, std::move(refused));
  Do(std::move(todo));
  if (p->request.stop.stop_possible())
    p->on_stop.emplace(p->request.stop, [core = weak_from_this(), weak = std::weak_ptr(p)] {
      if (const auto self = core.lock()) self->Cancel(weak);
    });
  if (mine) Begin(mine);
}

void Core::Help(const Pending& p) {
  // Who holds lanes must not wait for others'; in the child of a fork the mutex may be held.
  if (forked() || HoldsLanes()) return;
  BatchPtr mine;
  {
    const std::lock_guard lock(mutex_);
    Batch* batch = p.batch;
    if (!batch || batch->begun || batch->items.size() != 1 || batch->place == Place::kAside) return;
    mine = batch->shared_from_this();
  }
  Begin(mine);
}

/// The run that was begun for `p` alone, for the thread that submits.
BatchPtr Core::TakeOwn(const Pending& p, Todo& todo) {
  const auto it = std::find_if(todo.begun.begin(), todo.begun.end(), [&](const BatchPtr& b) {
    return b->items.size() == 1 && b->items[0].request.get() == &p;
  });
  if (it == todo.begun.end()) return nullptr;
  BatchPtr own = std::move(*it);
  todo.begun.erase(it);
  return own;
}

/// Ok: the request may be queued.
Status Core::Admit(Pending& p, const Entry& entry) {
  p.id = next_id_++;
  const auto it = models_.find(p.request.model);
  if (it == models_.end()) return InvalidArgument(Cat("there is no model '", p.request.model, "'"));
  Model& m = it->second;
  ++m.stats.submitted;
  const auto refuse = [&](Status why) {
    ++m.stats.ends[EndIndex(State::kRejected)];
    p.times = m.times;
    return why;
  };
  if (closed_ && !entry.continues)
    return refuse(ResourceExhausted("the engine takes no more requests"));
  if (static_cast<size_t>(p.request.priority) >= kPriorities)
    return refuse(InvalidArgument("the request has no priority that there is"));
  if (p.request.sequence.id.empty() && (p.request.sequence.begins || p.request.sequence.ends))
    return refuse(InvalidArgument("the request begins or ends no sequence: it names none"));
  if (!p.request.device.empty())
    return refuse(InvalidArgument(Cat("model '", p.request.model, "' is no route by device")));
  if (m.shadow != entry.shadow)
    return refuse(InvalidArgument(
        Cat("model '", p.request.model, "' is a shadow: it takes no requests of its own")));
  const std::string& sequence = p.request.sequence.id;
  if (!sequence.empty() && HolderOf(m, sequence)) {
    Status fits = AdmitStep(m, p);
    return fits.ok() ? fits : refuse(std::move(fits));
  }
  if (!m.current && !m.loader)
    return refuse(InvalidArgument(Cat("model '", p.request.model, "' is not loaded")));
  m.last_use = ++uses_;
  p.times = m.times;
  if (!m.current) return Await(m, p);
  Status fits = AdmitTo(m, p);
  return fits.ok() ? fits : refuse(std::move(fits));
}

/// Ok: the request, whose model is loaded, may be queued.
Status Core::AdmitTo(Model& m, Pending& p) {
  if (!p.request.sequence.id.empty() || m.current->keeps_state()) return AdmitStep(m, p);
  p.version = m.current;
  p.outcome.version = p.version->number();
  return AdmitInputs(m, p);
}

/// Ok: they fit its version, and there is place in its queue.
Status Core::AdmitInputs(Model& m, Pending& p) {
  Fit fit = p.version->FitOf(p.request.inputs);
  if (!fit.status.ok()) return std::move(fit.status);
  p.bytes = fit.bytes;
  p.rows = std::max<int64_t>(fit.rows, 1);
  p.requests_before = p.version->queue.state().requests + p.version->running_requests;
  p.shape = std::move(fit.shape);
  p.length = fit.length;
  p.padded_to = fit.padded_to;
  if (fit.rows < 1) p.shape.push_back(-p.id - 1);  // no rows: with nobody
  if (std::string why = p.version->queue.Refuses(p.bytes); !why.empty()) {
    p.outcome.queue = p.version->queue.state();
    p.outcome.queue.running = p.version->running_requests;
    return ResourceExhausted(Cat("model '", p.request.model, "': ", why));
  }
  if (fit.padding) ++m.stats.padding[static_cast<size_t>(*fit.padding)];
  if (p.padded_to > 0) m.stats.padded_from += p.length, m.stats.padded_to += p.padded_to;
  return {};
}

/// Whether this call ended it.
bool Core::End(Pending& p, State how, Status status, int64_t now_ns) {
  const auto was = p.End(how);
  if (!was) return false;
  Outcome& o = p.outcome;
  o.end = how;
  o.status = std::move(status);
  o.phases.total_ns = now_ns - p.came_ns;
  if (*was == State::kQueued) o.phases.queue_ns = o.phases.total_ns;
  if (p.deadline_ns != kNever) deadlines_.erase({p.deadline_ns, &p});
  ++models_.at(p.request.model).stats.ends[EndIndex(how)];
  return true;
}

/// Not by its run. It is told at once where no run reads its inputs, else by the run.
void Core::EndEarly(Pending& p, State how, Status why, int64_t now_ns, Todo& todo) {
  const State was = p.state();
  if (!End(p, how, std::move(why), now_ns)) return;
  const PendingPtr self = p.shared_from_this();
  bool tell = was != State::kRunning;
  if (p.bucket) {
    p.version->queue.Remove(p);
    if (p.version->superseded) ReleaseVersions(models_.at(p.request.model), todo);
  } else if (Batch* batch = p.batch) {
    if (--batch->live == 0) todo.stopped.push_back(batch->shared_from_this());
    // A batch that has begun may read what it has not stacked yet.
    tell = batch->begun ? batch->stacked : true;
  }
  StepEnded(p, nullptr, now_ns, todo);
  if (!tell) return;
  p.handed = true;
  deliveries_.push_back(self);
  todo.deliver = true;
}

void Core::Expire(int64_t now_ns, Todo& todo) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns)
    EndEarly(*deadlines_.begin()->second, State::kTimedOut,
             Cancelled("the deadline of the request passed"), now_ns, todo);
}

void Core::Cancel(const std::weak_ptr<Pending>& weak) {
  const PendingPtr p = weak.lock();
  if (!p) return;
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    EndEarly(*p, State::kCancelled, Cancelled("the request was cancelled"), NowNs(), todo);
    UseRoom(todo);
  }
  Do(std::move(todo));
}

void Core::Wake(int64_t ns) {
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    wakes_.erase(ns);
    Pump(NowNs(), todo);
    // This is the thread that tells such ends.
    todo.told.assign(deliveries_.begin(), deliveries_.end());
    deliveries_.clear();
  }
  Do(std::move(todo));
}

void Core::Close() {
  if (forked()) return;
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    const int64_t now_ns = NowNs();
    for (const auto& [name, m] : models_) EndShadows(m, now_ns, todo);
    Pump(now_ns, todo);
  }
  Do(std::move(todo));
}

void Core::Drain() {
  if (forked()) return;
  Close();
  AwaitQuiet();
}

void Core::Shutdown() {
  if (forked()) return;
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    closed_ = shut_ = true;
    const int64_t now_ns = NowNs();
    std::vector<PendingPtr> all;
    const auto take = [&](Version& v) {
      const auto queued = v.queue.All();
      all.insert(all.end(), queued.begin(), queued.end());
    };
    for (auto& [name, m] : models_) {
      for (const auto& v : m.old) take(*v);
      if (m.current) take(*m.current);
      all.insert(all.end(), m.arriving.begin(), m.arriving.end());
      m.arriving.clear();
    }
    for (const Batch* batch : batches_)
      for (const BatchItem& item : batch->items) all.push_back(item.request);
    for (const PendingPtr& p : all)
      EndEarly(*p, State::kCancelled, Cancelled("the engine was shut down"), now_ns, todo);
  }
  Do(std::move(todo));
  AwaitQuiet();
}

std::vector<ModelStats> Core::Stats() const {
  std::vector<ModelStats> all;
  if (forked()) return all;
  const int64_t now_ns = NowNs();
  std::vector<std::shared_ptr<const Telemetry>> times;
  std::vector<std::deque<Model::Kept>> kept;
  std::vector<std::vector<LatencyFactors>> factors;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, m] : models_) {
      ModelStats& s = all.emplace_back(m.stats);
      s.model = name;
      s.old_versions = static_cast<int>(m.old.size());
      times.push_back(m.times);
      kept.push_back(m.kept);
      factors.emplace_back();
      for (const Model::Kept& k : m.kept) factors.back().push_back(*k.factors);
      s.arriving = static_cast<int64_t>(m.arriving.size());
      if (!m.current) continue;
      s.version = m.current->number();
      s.bytes = m.current->bytes();
      s.nodes = m.current->nodes();
      s.sequences = static_cast<int64_t>(m.current->sequences.size());
      s.queue = m.current->queue.state();
      s.queue.running = m.current->running_requests;
      s.unpaddable = m.current->unpaddable();
      s.unbatchable = !m.current->axes().proved ? m.current->axes().reason
                      : m.current->batches()    ? ""
                                                : "its rules stack no more than one row";
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].times = times[i]->View(now_ns);
    for (size_t k = 0; k < kept[i].size(); ++k)
      all[i].versions.push_back(
          {kept[i][k].version, kept[i][k].device, *kept[i][k].times, factors[i][k]});
  }
  return all;
}

}  // namespace infer::engine
