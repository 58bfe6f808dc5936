/// Models that come and go: loaded by callers, or registered and loaded when they are asked for.
#include <algorithm>

#include "lib/support/exceptions.h"
#include "lib/support/strings.h"
#include "runtime/engine/core.h"
#include "runtime/engine/settings.h"
#include "runtime/engine/values.h"

namespace infer::engine {
namespace {

Status MadeBeforeFork() {
  return InvalidArgument("the engine was made before this process was forked");
}

}  // namespace

Status Core::Load(const std::string& name, ModelSource source, ModelOptions options) {
  if (forked()) return MadeBeforeFork();
  int64_t number = 0, free_bytes = kNever;
  auto warming = infer::Priority::kNormal;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return InvalidArgument("the engine is closed");
    const auto serves = [](const auto& named) { return named.second.current != nullptr; };
    if (std::any_of(models_.begin(), models_.end(), serves)) warming = infer::Priority::kLow;
    Model& m = models_[name];
    if (m.loader) return InvalidArgument(Cat("model '", name, "' is registered: unload it first"));
    number = ++m.versions;
    ++m.making;
    free_bytes = FreeBytes();
  }
  auto made = Version::Make(name, number, std::move(source), std::move(options),
                            {.priority = warming, .homes = homes_, .most_bytes = free_bytes});
  Todo todo;
  Status fits = made.status();
  {
    const std::lock_guard lock(mutex_);
    Model& m = models_.at(name);
    --m.making;
    if (fits.ok()) fits = Put(name, m, *std::move(made), todo);
    ForgetUnloaded();
  }
  Do(std::move(todo));
  return fits;
}

/// A version that was made takes the requests of its model, where there is room for it.
Status Core::Put(const std::string& name, Model& m, std::shared_ptr<Version> version, Todo& todo) {
  // Of the old version both are there until it has answered its requests.
  std::vector<MemoryHolder> holders;
  INFER_ASSIGN(const auto go, RoomFor(name, version->bytes(), holders));
  if (m.loader) return InvalidArgument(Cat("model '", name, "' is registered"));
  GoAway(go, holders, todo);
  Supersede(m);
  SetCurrent(m, std::move(version));
  m.last_use = ++uses_;
  ReleaseVersions(m, todo);
  peak_bytes_ = std::max(peak_bytes_, UsedBytes());
  Pump(NowNs(), todo);
  return {};
}

Status Core::Unload(const std::string& name) {
  if (forked()) return MadeBeforeFork();
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    const auto it = models_.find(name);
    if (it == models_.end() || (!it->second.current && !it->second.loader))
      return InvalidArgument(Cat("there is no model '", name, "'"));
    Model& m = it->second;
    m.loader = nullptr;
    for (const PendingPtr& p : std::exchange(m.arriving, {}))
      EndEarly(*p, State::kRejected, InvalidArgument(Cat("model '", name, "' was unloaded")),
               NowNs(), todo);
    const int64_t now_ns = NowNs();
    Supersede(m);
    for (const auto& v : std::vector(m.old)) DropSequences(*v, now_ns, todo);
    ReleaseVersions(m, todo);
    Pump(now_ns, todo);
    ForgetUnloaded();
  }
  Do(std::move(todo));
  return {};
}

/// Counts of models that are not there any more: a name that was never loaded has none, and of
/// others only those stay that were asked for last. Requests that have not ended are of models that
/// are there. That a model is a shadow is known until its route is gone.
void Core::ForgetUnloaded() {
  std::vector<std::pair<int64_t, std::string>> unloaded;
  for (const auto& [name, m] : models_)
    if (!m.IsThere() && !m.shadow) unloaded.emplace_back(m.last_use, name);
  std::sort(unloaded.begin(), unloaded.end());
  size_t left = unloaded.size();
  for (const auto& [last_use, name] : unloaded) {
    if (last_use > 0 && left <= kMostUnloaded) break;
    models_.erase(name);
    --left;
  }
}

void Core::SetCurrent(Model& m, std::shared_ptr<Version> version) {
  version->aside = m.shadow;
  m.kept.push_back({version->number(), version->device(), version->times(), version->factors});
  if (m.kept.size() > kKeptVersions) m.kept.pop_front();
  m.current = std::move(version);
}

void Core::Supersede(Model& m) {
  if (!m.current) return;
  m.current->superseded = true;
  m.old.push_back(std::move(m.current));
  m.current = nullptr;
}

void Core::ReleaseVersions(Model& m, Todo& todo) {
  std::erase_if(m.old, [&](std::shared_ptr<Version>& v) {
    if (!v->queue.empty() || v->running > 0 || !v->sequences.empty()) return false;
    todo.released.push_back(std::move(v));
    return true;
  });
}

Status Core::Register(const std::string& name, ModelLoader loader, ModelOptions options,
                      int64_t expected_bytes) {
  if (forked()) return MadeBeforeFork();
  if (!loader) return InvalidArgument(Cat("model '", name, "' has no loader"));
  INFER_TRY(Check(name, options));
  if (expected_bytes < 0)
    return InvalidArgument(
        Cat("model '", name, "' is expected to take ", expected_bytes, " bytes"));
  const std::lock_guard lock(mutex_);
  if (closed_) return InvalidArgument("the engine is closed");
  Model& m = models_[name];
  if (m.current || m.loader || m.loading)
    return InvalidArgument(Cat("there is a model '", name, "': unload it first"));
  m.loader = std::move(loader);
  m.load_options = std::move(options);
  m.expected_bytes = expected_bytes;
  return {};
}

Status Core::Prefetch(const std::string& name) {
  if (forked()) return MadeBeforeFork();
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    const auto it = models_.find(name);
    if (it == models_.end() || !it->second.loader)
      return InvalidArgument(Cat("there is no registered model '", name, "'"));
    if (closed_) return InvalidArgument("the engine is closed");
    it->second.last_use = ++uses_;
    if (!it->second.current) WantLoaded(name, it->second, todo);
  }
  Do(std::move(todo));
  return {};
}

MemoryStats Core::Memory() const {
  if (forked()) return {};
  const std::lock_guard lock(mutex_);
  const int64_t used = UsedBytes();
  peak_bytes_ = std::max(peak_bytes_, used);
  return {options_.memory_bytes, used, peak_bytes_};
}

/// Ok: the request waits until its model is loaded.
Status Core::Await(Model& m, Pending& p) {
  std::erase_if(m.arriving, [](const PendingPtr& a) { return IsEnd(a->state()); });
  const QueueLimits& limits = m.load_options.queue;
  int64_t bytes = 0;
  for (const PendingPtr& a : m.arriving) bytes += a->bytes;
  p.bytes = BytesOf(p.request.inputs);
  const auto count = static_cast<int64_t>(m.arriving.size());
  if (count < limits.max_requests && (count == 0 || p.bytes <= limits.max_bytes - bytes)) return {};
  p.outcome.queue = {count, bytes, limits.max_requests, limits.max_bytes, 0};
  ++m.stats.ends[EndIndex(State::kRejected)];
  return ResourceExhausted(Cat("model '", p.request.model, "' is being loaded: ", count,
                               " requests of ", bytes, " bytes wait"));
}

/// Pre: it was admitted.
void Core::Enqueue(const PendingPtr& p, Todo& todo) {
  if (p->waits_for_step) return;
  if (p->version) return p->version->queue.Push(p, p->version->run_ns);
  Model& m = models_.at(p->request.model);
  m.arriving.push_back(p);
  WantLoaded(p->request.model, m, todo);
}

void Core::WantLoaded(const std::string& name, Model& m, Todo& todo) {
  if (m.loading) return;
  m.loading = true;
  loads_.push_back(name);
  if (load_goes_on_) return;
  load_goes_on_ = todo.load = true;
}

/// Of all versions that are there. Programs that several share count once.
int64_t Core::UsedBytes() const {
  std::set<const Program*> seen;
  int64_t used = 0;
  const auto add = [&](const Version& v) {
    used += v.bytes() - (seen.insert(&v.program()).second ? 0 : v.weight_bytes());
  };
  for (const auto& [name, m] : models_) {
    for (const auto& v : m.old) add(*v);
    if (m.current) add(*m.current);
  }
  if (parked_.version) add(*parked_.version);
  return used;
}

/// Versions that only answer what they have are as good as gone.
Result<std::vector<size_t>> Core::RoomFor(const std::string& name, int64_t bytes,
                                          std::vector<MemoryHolder>& holders) const {
  if (options_.memory_bytes == kNever) return std::vector<size_t>();
  for (const auto& [model, m] : models_)
    if (m.current)
      holders.push_back({.model = model,
                         .bytes = m.current->bytes(),
                         .last_use = m.last_use,
                         .may_go = m.loader && m.current->sequences.empty()});
  return MakeRoom(options_.memory_bytes, name, bytes, holders);
}

void Core::GoAway(const std::vector<size_t>& which, const std::vector<MemoryHolder>& holders,
                  Todo& todo) {
  for (size_t i : which) {
    Model& m = models_.at(holders[i].model);
    ++m.stats.unloads;
    Supersede(m);
    ReleaseVersions(m, todo);
  }
}

/// The rest of the budget now.
int64_t Core::FreeBytes() const {
  if (options_.memory_bytes == kNever) return kNever;
  return std::max<int64_t>(0, options_.memory_bytes - loading_bytes_ - UsedBytes());
}

/// The batch is over: what its runs took is known, and its context may hold more than before.
void Core::LearnMemory(const Batch& batch, Todo& todo) {
  Version& version = *batch.version;
  if (batch.refused_rows > 0) version.RefusedMemory(batch.shape, batch.refused_rows);
  if (batch.ran_rows > 0 && (IsLimited(version) || version.refused_memory()))
    version.RanWithin(batch.shape, batch.ran_rows, batch.ran_bytes);
  if (!IsLimited(version)) return;
  version.Grew(*batch.context, batch.took);
  peak_bytes_ = std::max(peak_bytes_, UsedBytes());
  Trim(version, todo);
}

/// A context took more than before: others go that have nothing to do.
void Core::Trim(const Version& grown, Todo& todo) {
  if (UsedBytes() <= options_.memory_bytes) return;
  std::vector<MemoryHolder> holders;
  (void)RoomFor(grown.model(), 0, holders);
  for (MemoryHolder& h : holders) {
    const Version& v = *models_.at(h.model).current;
    h.may_go = h.may_go && h.model != grown.model() && v.queue.empty() && v.running == 0;
  }
  const auto go = MakeRoom(options_.memory_bytes, grown.model(), 0, holders);
  if (go.ok()) GoAway(*go, holders, todo);
}

/// On the thread for it. Room is made first where it is known how much will be needed.
void Core::LoadNext() {
  Todo todo;
  std::string name;
  ModelLoader loader;
  ModelOptions options;
  int64_t number = 0, free_bytes = kNever;
  {
    const std::lock_guard lock(mutex_);
    name = loads_.front();
    loads_.pop_front();
    loading_bytes_ = 0;
    Model& m = models_.at(name);
    std::vector<MemoryHolder> holders;
    const auto go = RoomFor(name, m.expected_bytes, holders);
    if (!m.loader || shut_ || !go.ok()) {
      EndLoad(name, go.ok() ? Cancelled("the model was unloaded") : go.status(), todo);
    } else {
      GoAway(*go, holders, todo);
      if (options_.memory_bytes != kNever &&
          UsedBytes() > options_.memory_bytes - m.expected_bytes) {
        loads_.push_front(name);
        waits_for_room_ = true;
        loading_bytes_ = m.expected_bytes;  // runs leave alone what becomes free
      } else {
        loader = m.loader;
        options = m.load_options;
        number = ++m.versions;
        free_bytes = FreeBytes();
        loading_bytes_ = m.expected_bytes;
        ++computing_;  // who waits for the engine to be quiet waits for the caller's function
      }
    }
  }
  const bool goes_on = static_cast<bool>(loader);
  Do(std::move(todo));
  if (!goes_on) return;
  const auto made = std::make_shared<Result<std::shared_ptr<Version>>>(Internal("not loaded"));
  options_.executor->Run(
      [=, homes = homes_, loader = std::move(loader), options = std::move(options)] {
        try {
          auto source = loader();
          *made = source.ok() ? Version::Make(name, number, *std::move(source), options,
                                              {.homes = homes, .most_bytes = free_bytes})
                              : Result<std::shared_ptr<Version>>(source.status());
        } catch (...) {
          *made = StatusOfException("while a model was loaded");
        }
      },
      [self = shared_from_this(), name, made] { self->Loaded(name, std::move(*made)); });
}

/// With the mutex held, when something may have gone: what waited for its memory goes on.
void Core::UseRoom(Todo& todo) {
  Install(todo);
  if (!waits_for_room_) return;
  const bool all_gone = std::all_of(models_.begin(), models_.end(),
                                    [](const auto& m) { return m.second.old.empty(); });
  const int64_t needed = models_.at(loads_.front()).expected_bytes;
  if (!all_gone && UsedBytes() > options_.memory_bytes - needed) return;
  waits_for_room_ = false;
  todo.load = true;
}

void Core::Loaded(const std::string& name, Result<std::shared_ptr<Version>> version) {
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    --computing_;
    loading_bytes_ = 0;
    Model& m = models_.at(name);
    if (!version.ok() || !m.loader || shut_) {
      EndLoad(name, version.ok() ? Cancelled("the model was unloaded") : version.status(), todo);
      if (version.ok()) todo.released.push_back(*std::move(version));
    } else {
      m.expected_bytes = (*version)->bytes();
      parked_ = {name, *std::move(version)};
      peak_bytes_ = std::max(peak_bytes_, UsedBytes());
    }
    Pump(NowNs(), todo);
    if (waiting_ > 0) quiet_.notify_all();
  }
  Do(std::move(todo));
}

/// What was loaded takes its requests, as soon as those that must go for it are gone.
void Core::Install(Todo& todo) {
  if (!parked_.version) return;
  const std::string name = parked_.model;
  Model& m = models_.at(name);
  std::vector<MemoryHolder> holders;
  const auto go = RoomFor(name, parked_.version->bytes(), holders);
  Status status = go.status();
  if (!m.loader || shut_) status = Cancelled("the model was unloaded");
  if (!status.ok()) {
    todo.released.push_back(std::exchange(parked_.version, nullptr));
    return EndLoad(name, status, todo);
  }
  // Those that go may be gone at once, and come back here through nobody.
  const auto parked = std::exchange(parked_.version, nullptr);
  GoAway(*go, holders, todo);
  parked_.version = parked;
  if (UsedBytes() > options_.memory_bytes) return;
  parked_.version = nullptr;
  SetCurrent(m, parked);
  ++m.stats.loads;
  EndLoad(name, {}, todo);
}

/// Requests that waited are queued, or rejected; the next model's turn has come.
void Core::EndLoad(const std::string& name, const Status& status, Todo& todo) {
  Model& m = models_.at(name);
  m.loading = false;
  const int64_t now_ns = NowNs();
  for (const PendingPtr& p : std::exchange(m.arriving, {})) {
    if (IsEnd(p->state())) continue;
    const Status admitted = status.ok() ? AdmitTo(m, *p) : status;
    if (admitted.ok() && !p->waits_for_step)
      p->version->queue.Push(p, p->version->run_ns);
    else if (!admitted.ok())
      EndEarly(*p, State::kRejected, admitted, now_ns, todo);
  }
  load_goes_on_ = !loads_.empty();
  todo.load |= load_goes_on_;
}

}  // namespace infer::engine
