/// Steps of sequences, one after the other. All with the engine's mutex held.
#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/engine/core.h"

namespace infer::engine {

/// The version that has the sequence; nullptr: none of the model's.
std::shared_ptr<Version> Core::HolderOf(const Model& m, const std::string& id) {
  if (m.current && m.current->sequences.contains(id)) return m.current;
  for (const auto& v : m.old)
    if (v->sequences.contains(id)) return v;
  return nullptr;
}

/// Ok: the step may be queued, or waits for the one before it.
Status Core::AdmitStep(Model& m, Pending& p) {
  const SequenceStep& step = p.request.sequence;
  const auto refuse = [&](const char* why) {
    return InvalidArgument(Cat("model '", p.request.model, "', sequence '", step.id, "': ", why));
  };
  if (step.id.empty()) return refuse("the model keeps state, its requests are steps of sequences");
  std::shared_ptr<Version> version = HolderOf(m, step.id);
  if (step.begins) {
    if (version) return refuse("it goes on already");
    version = m.current;
    if (!version || !version->keeps_state()) return refuse("the model keeps no state");
    const int64_t most = version->options().state.max_sequences;
    if (static_cast<int64_t>(version->sequences.size()) >= most)
      return ResourceExhausted(Cat("model '", p.request.model, "': ", most, " sequences go on"));
  } else if (!version) {
    return refuse("it has not begun, has ended, or had no step for too long");
  }
  p.version = version;
  p.outcome.version = version->number();
  Sequence& s = version->sequences[step.id];
  if (s.step) {
    const int64_t most = version->options().queue.max_requests;
    if (static_cast<int64_t>(s.waiting.size()) >= most)
      return ResourceExhausted(Cat("model '", p.request.model, "': ", most, " steps wait"));
    s.waiting.push_back(p.shared_from_this());
    p.waits_for_step = true;
    return {};
  }
  Status fits = TakeStep(m, p, s);
  if (fits.ok())
    m.stats.sequences_begun += step.begins ? 1 : 0;
  else if (step.begins)
    version->sequences.erase(step.id);
  return fits;
}

/// Ok: the step may be queued, and is the one that goes on.
Status Core::TakeStep(Model& m, Pending& p, Sequence& s) {
  std::vector<Datum>& inputs = p.request.inputs;
  if (s.state.empty()) {
    INFER_ASSIGN(s.state, p.version->InitialState(inputs));
  }
  INFER_TRY(p.version->AddState(inputs, s.state));
  INFER_TRY(AdmitInputs(m, p));
  if (s.idle_at_ns != kNever) idle_.erase({s.idle_at_ns, p.version.get(), p.request.sequence.id});
  s.idle_at_ns = kNever;
  s.step = &p;
  p.waits_for_step = false;
  return {};
}

/// `outputs`: of a step that succeeded; nullptr: it did not.
void Core::StepEnded(Pending& p, std::vector<Datum>* outputs, int64_t now_ns, Todo& todo) {
  const SequenceStep& step = p.request.sequence;
  if (step.id.empty() || !p.version) return;
  const auto version = p.version;
  const auto it = version->sequences.find(step.id);
  if (it == version->sequences.end() || it->second.step != &p) return;
  Sequence& s = it->second;
  s.step = nullptr;
  if (outputs) s.state = version->TakeState(*outputs);
  std::deque<PendingPtr> dropped;
  Status why = Cancelled("a step before it in its sequence did not succeed");
  if (!outputs) dropped.swap(s.waiting);
  if (outputs ? step.ends : step.begins) {
    if (outputs) why = Cancelled("its sequence has ended");
    dropped.insert(dropped.end(), s.waiting.begin(), s.waiting.end());
    version->sequences.erase(it);
  } else {
    NextStep(version, step.id, s, now_ns, todo);
  }
  for (const PendingPtr& q : dropped) EndEarly(*q, State::kCancelled, why, now_ns, todo);
  if (version->superseded) ReleaseVersions(models_.at(version->model()), todo);
}

void Core::NextStep(const std::shared_ptr<Version>& version, const std::string& id, Sequence& s,
                    int64_t now_ns, Todo& todo) {
  Model& m = models_.at(version->model());
  while (!s.step && !s.waiting.empty()) {
    const PendingPtr q = std::move(s.waiting.front());
    s.waiting.pop_front();
    if (IsEnd(q->state())) continue;
    Status fits = TakeStep(m, *q, s);
    if (fits.ok()) return version->queue.Push(q, version->run_ns);
    q->waits_for_step = false;
    EndEarly(*q, State::kRejected, std::move(fits), now_ns, todo);
    for (const PendingPtr& behind : std::exchange(s.waiting, {}))
      EndEarly(*behind, State::kCancelled,
               Cancelled("a step before it in its sequence did not succeed"), now_ns, todo);
  }
  s.idle_at_ns = After(now_ns, version->options().state.idle_ns);
  if (s.idle_at_ns != kNever) idle_.emplace(s.idle_at_ns, version.get(), id);
}

void Core::ForgetIdle(int64_t now_ns, Todo& todo) {
  while (!idle_.empty() && std::get<0>(*idle_.begin()) <= now_ns) {
    Version& version = *std::get<1>(*idle_.begin());
    version.sequences.erase(std::get<2>(*idle_.begin()));
    idle_.erase(idle_.begin());
    Model& m = models_.at(version.model());
    ++m.stats.sequences_idle;
    if (version.superseded) ReleaseVersions(m, todo);
  }
}

/// Their steps that run go on, and leave nothing.
void Core::DropSequences(Version& version, int64_t now_ns, Todo& todo) {
  for (auto& [id, s] : std::exchange(version.sequences, {})) {
    if (s.idle_at_ns != kNever) idle_.erase({s.idle_at_ns, &version, id});
    for (const PendingPtr& p : s.waiting)
      EndEarly(*p, State::kCancelled, Cancelled("the model was unloaded"), now_ns, todo);
  }
}

}  // namespace infer::engine
