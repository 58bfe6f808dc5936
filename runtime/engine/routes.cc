#include "runtime/engine/routes.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/engine/values.h"

namespace infer::engine {
namespace {

constexpr const char* kForked = "the engine was made before this process was forked";

/// Inputs that outlive the request whose they are: a caller's own memory is copied.
std::vector<Datum> OwnInputs(const std::vector<Datum>& inputs) {
  const auto kept = [](const Tensor& t) {
    return t.buffer() && t.buffer()->borrowed() ? t.Clone() : t;
  };
  std::vector<Datum> own;
  for (const Datum& d : inputs) own.push_back(WithTensors(d, kept));
  return own;
}

/// Outputs that whoever is given the others may not change.
std::vector<Datum> OwnOutputs(const std::vector<Datum>& outputs) {
  std::vector<Datum> own;
  for (const Datum& d : outputs) own.push_back(Copied(d));
  return own;
}

/// Whether what fits `a` fits `b`.
bool AlikeTypes(const Value& a, const Value& b) {
  if (a.type().is_tensor() != b.type().is_tensor()) return false;
  if (!a.type().is_tensor()) return true;
  if (a.dtype() != b.dtype()) return false;
  if (!a.shape().has_rank() || !b.shape().has_rank()) return true;
  if (a.shape().rank() != b.shape().rank()) return false;
  for (int i = 0; i < a.shape().rank(); ++i)
    if (a.shape()[i].is_static() && b.shape()[i].is_static() &&
        a.shape()[i].value() != b.shape()[i].value())
      return false;
  return true;
}

/// "", or of what the programs have others: "inputs", "outputs".
const char* OtherValues(const Program& p, const Program& q) {
  for (const bool inputs : {true, false}) {
    const auto &a = inputs ? p.inputs() : p.outputs(), &b = inputs ? q.inputs() : q.outputs();
    const bool alike = a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                                          [](const Value* x, const Value* y) {
                                                            return AlikeTypes(*x, *y);
                                                          });
    if (!alike) return inputs ? "inputs" : "outputs";
  }
  return "";
}

/// Variants answer the same requests, with answers of the same form.
Status CheckAlike(const Core& core, const RoutePolicy& policy) {
  const std::vector<RouteVariant>& variants = policy.variants;
  INFER_ASSIGN(const auto first, core.ProgramOf(variants[0].model));
  for (const RouteVariant& v : variants) {
    INFER_ASSIGN(const auto program, core.ProgramOf(v.model));
    if (const std::string other = OtherValues(*first, *program); !other.empty())
      return InvalidArgument(
          Cat("models '", variants[0].model, "' and '", v.model, "' have other ", other));
  }
  const auto* cascade = std::get_if<CascadeRoute>(&policy.mode);
  if (cascade && cascade->output >= first->outputs().size())
    return InvalidArgument(Cat("output ", cascade->output, " of a cascade: its models have ",
                               first->outputs().size()));
  return {};
}

}  // namespace

/// A request of a route until its end is told.
struct Routes::Flight {
  RoutePtr route;
  Callback callback;
  Request again;  // of a cascade: what the next variant is asked
  int64_t deadline_ns = kNever;
  bool taken = false;  // by a variant: the next one takes it also while the engine drains
  Phases before;       // at variants that were not sure
  std::shared_ptr<Outcome> unsure;           // the last of their answers
  std::vector<std::shared_ptr<Pair>> pairs;  // with copies of the request
};

/// The answers of a request and of one copy.
struct Routes::Pair {
  std::mutex mutex;
  int ended = 0;
  bool both_succeeded = true;
  std::vector<Datum> answer, copy;
};

Status Routes::CheckName(const std::string& name) const {
  return Find(name) ? InvalidArgument(Cat("a route has the name '", name, "'")) : Status();
}

Status Routes::CheckVersion(const std::string& name, const Program* program,
                            const ModelOptions& options) const {
  INFER_TRY(CheckName(name));
  std::vector<RoutePtr> of;
  if (any_) {
    const std::lock_guard lock(mutex_);
    for (const auto& [route_name, route] : routes_)
      for (const RouteVariant& v : route->policy().variants)
        if (v.model == name) of.push_back(route);
  }
  for (const RoutePtr& route : of) {
    const auto refuse = [&](const std::string& why) {
      return InvalidArgument(
          Cat("model '", name, "' is a variant of route '", route->name(), "': ", why));
    };
    if (options.warm_inputs.empty()) return refuse("it is not picked without warm_inputs");
    for (const RouteVariant& v : route->policy().variants) {
      const auto beside = core_->ProgramOf(v.model);
      if (v.model == name || !program || !beside.ok()) continue;
      if (const std::string other = OtherValues(*program, **beside); !other.empty())
        return refuse(Cat("it would have other ", other, " than model '", v.model, "'"));
    }
  }
  return {};
}

Routes::RoutePtr Routes::Find(const std::string& name) const {
  if (!any_) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto it = routes_.find(name);
  return it == routes_.end() ? nullptr : it->second;
}

std::vector<ModelLoad> Routes::LoadsOf(const RouteState& route, const std::string& sequence) const {
  std::vector<ModelLoad> loads;
  for (const RouteVariant& v : route.policy().variants)
    loads.push_back(core_->LoadOf(v.model, sequence));
  return loads;
}

Status Routes::Set(const std::string& name, RoutePolicy policy) {
  if (core_->forked()) return InvalidArgument(kForked);
  const std::lock_guard setting(setting_);
  if (Status s = Check(policy); !s.ok()) return std::move(s).In(Cat("route '", name, "'"));
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument(Cat("route '", name, "': ", why));
  };
  if (core_->Knows(name)) return refuse("a model has this name");
  if (Status s = CheckAlike(*core_, policy); !s.ok())
    return std::move(s).In(Cat("route '", name, "'"));
  for (const RouteVariant& v : policy.variants)
    if (!core_->LoadOf(v.model).ready)
      return refuse(Cat("model '", v.model, "' is not warm: load it with warm_inputs"));
  const bool shadows = std::holds_alternative<ShadowRoute>(policy.mode);
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [other, route] : routes_) {
      if (other == name) continue;
      for (const RouteVariant& v : route->policy().variants)
        for (size_t i = 0; i < policy.variants.size(); ++i)
          if (v.model == policy.variants[i].model &&
              (shadows || std::holds_alternative<ShadowRoute>(route->policy().mode)))
            return refuse(Cat("model '", v.model, "' also serves route '", other,
                              "': a model of a shadow route serves one route"));
    }
  }
  const RoutePtr before = Find(name);
  if (before) (void)SetShadows(before->policy(), false);
  if (Status s = SetShadows(policy, true); !s.ok()) {
    if (before) (void)SetShadows(before->policy(), true);
    return std::move(s).In(Cat("route '", name, "'"));
  }
  const std::lock_guard lock(mutex_);
  routes_[name] =
      std::make_shared<RouteState>(name, std::move(policy), ++generations_, core_->NowNs());
  any_ = true;
  return {};
}

/// All of a shadow route's, or on a failure none.
Status Routes::SetShadows(const RoutePolicy& policy, bool shadow) {
  if (!std::holds_alternative<ShadowRoute>(policy.mode)) return {};
  for (size_t i = 1; i < policy.variants.size(); ++i) {
    Status s = core_->SetShadow(policy.variants[i].model, shadow);
    if (s.ok()) continue;
    while (--i > 0) (void)core_->SetShadow(policy.variants[i].model, !shadow);
    return s;
  }
  return {};
}

Status Routes::Remove(const std::string& name) {
  if (core_->forked()) return InvalidArgument(kForked);
  const std::lock_guard setting(setting_);
  RoutePtr gone;
  {
    const std::lock_guard lock(mutex_);
    const auto it = routes_.find(name);
    if (it == routes_.end()) return InvalidArgument(Cat("there is no route '", name, "'"));
    gone = std::move(it->second);
    routes_.erase(it);
    any_ = !routes_.empty();
  }
  return SetShadows(gone->policy(), false);
}

void Routes::Submit(Request request, Callback callback, Entry entry) {
  const RoutePtr route = core_->forked() ? nullptr : Find(request.model);
  if (!route) return core_->Submit(std::move(request), std::move(callback), entry);
  const int64_t now_ns = core_->NowNs();
  const std::vector<ModelLoad> loads = LoadsOf(*route, request.sequence.id);
  RouteState::Picked picked;
  std::vector<size_t> copies;
  {
    const std::lock_guard lock(mutex_);
    picked = route->Pick(request, loads, now_ns);
    if (picked.variant)
      copies = route->Copies(loads, now_ns);
    else
      route->Reject();
  }
  if (!picked.variant)
    return core_->Refuse(std::move(request), std::move(callback),
                         ResourceExhausted(Cat("route '", route->name(), "': ", picked.why)));
  const auto flight = std::make_shared<Flight>();
  flight->route = route;
  flight->callback = std::move(callback);
  flight->deadline_ns = After(now_ns, request.timeout_ns);
  // Copies are made before the request is sent: its inputs may be gone once it has ended.
  std::vector<Request> copied;
  for (size_t i = 0; i < copies.size(); ++i) {
    copied.push_back({.model = {},
                      .inputs = OwnInputs(request.inputs),
                      .timeout_ns = std::get<ShadowRoute>(route->policy().mode).timeout_ns,
                      .priority = Priority::kLow});
    flight->pairs.push_back(std::make_shared<Pair>());
  }
  const auto pairs = flight->pairs;
  flight->again = std::move(request);
  Send(flight, *picked.variant, entry);
  for (size_t i = 0; i < copies.size(); ++i)
    SendCopy(route, pairs[i], std::move(copied[i]), copies[i]);
}

void Routes::Send(const std::shared_ptr<Flight>& flight, size_t variant, Entry entry) {
  RouteState& route = *flight->route;
  RouteState::Sent sent;
  const int64_t now_ns = core_->NowNs();
  {
    const std::lock_guard lock(mutex_);
    sent = route.Send(variant, now_ns);
  }
  const bool may_go_on = std::holds_alternative<CascadeRoute>(route.policy().mode);
  Request request = may_go_on ? flight->again : std::move(flight->again);
  request.model = route.model(variant);
  request.device.clear();
  request.timeout_ns = flight->deadline_ns == kNever ? kNever : flight->deadline_ns - now_ns;
  core_->Submit(
      std::move(request),
      [self = shared_from_this(), flight, sent](Outcome o) {
        self->Ended(flight, sent, std::move(o));
      },
      entry);
}

void Routes::Ended(const std::shared_ptr<Flight>& flight, const RouteState::Sent& sent, Outcome o) {
  RouteState& route = *flight->route;
  {
    const std::lock_guard lock(mutex_);
    route.Ended(sent, o, core_->NowNs());
  }
  o.ticket = {route.name(), route.generation(), route.model(sent.variant)};
  for (const auto& pair : flight->pairs) PartEnded(flight->route, pair, false, o);
  if (GoesOn(flight, sent, o)) return;
  flight->again.inputs.clear();  // owners of a caller's memory are let go before it is told
  if (flight->callback) flight->callback(std::move(o));
}

/// Whether a cascade asks its next variant. Else `o` is the answer, perhaps an earlier one.
bool Routes::GoesOn(const std::shared_ptr<Flight>& flight, const RouteState::Sent& sent,
                    Outcome& o) {
  RouteState& route = *flight->route;
  const auto* cascade = std::get_if<CascadeRoute>(&route.policy().mode);
  if (!cascade) return false;
  const bool succeeded = o.end == State::kSucceeded;
  flight->taken |= o.end != State::kRejected;
  Phases& phases = flight->before;
  phases.queue_ns = o.phases.queue_ns += phases.queue_ns;
  phases.batch_ns = o.phases.batch_ns += phases.batch_ns;
  phases.compute_ns = o.phases.compute_ns += phases.compute_ns;
  phases.total_ns = o.phases.total_ns += phases.total_ns;
  if (succeeded && cascade->output < o.outputs.size()) {
    const auto sure = Confidence(o.outputs[cascade->output], cascade->logits);
    o.confidence = sure.value_or(0);
    if (sure && *sure >= cascade->min_confidence) return false;
    const std::lock_guard lock(mutex_);
    route.Unsure(sent.variant, sure.has_value());
  }
  if (o.end == State::kCancelled || o.end == State::kTimedOut) return false;
  const std::vector<ModelLoad> loads = LoadsOf(route);
  const bool is_last = sent.variant + 1 == route.policy().variants.size();
  std::optional<size_t> next;
  {
    const std::lock_guard lock(mutex_);
    next = route.Next(sent.variant, loads, core_->NowNs());
    if (!next && (succeeded ? !is_last : flight->unsure != nullptr)) route.GaveUp();
  }
  if (!next) {
    // Better an unsure answer than none.
    if (!succeeded && flight->unsure) {
      Metadata metadata = std::move(o.metadata);
      o = std::move(*flight->unsure);
      o.metadata = std::move(metadata);
      o.phases = phases;
    }
    return false;
  }
  flight->again.metadata = std::move(o.metadata);
  if (succeeded) flight->unsure = std::make_shared<Outcome>(std::move(o));
  Send(flight, *next, {.continues = flight->taken});
  return true;
}

void Routes::SendCopy(const RoutePtr& route, const std::shared_ptr<Pair>& pair, Request copy,
                      size_t variant) {
  RouteState::Sent sent;
  {
    const std::lock_guard lock(mutex_);
    sent = route->Send(variant, core_->NowNs());
  }
  copy.model = route->model(variant);
  core_->Submit(std::move(copy),
                [self = shared_from_this(), route, pair, sent](const Outcome& o) {
                  {
                    const std::lock_guard lock(self->mutex_);
                    route->Ended(sent, o, self->core_->NowNs());
                  }
                  self->PartEnded(route, pair, true, o);
                },
                {.shadow = true});
}

/// The last of the two to end has the answers compared, on a thread that nobody waits for.
void Routes::PartEnded(const RoutePtr& route, const std::shared_ptr<Pair>& pair, bool copy,
                       const Outcome& o) {
  std::vector<Datum> outputs = copy ? o.outputs : OwnOutputs(o.outputs);
  {
    const std::lock_guard lock(pair->mutex);
    pair->both_succeeded &= o.end == State::kSucceeded;
    if (pair->both_succeeded) (copy ? pair->copy : pair->answer) = std::move(outputs);
    if (++pair->ended < 2 || !pair->both_succeeded) return;
  }
  core_->executor().Post(
      [self = shared_from_this(), route, pair] {
        const Difference d = Compare(pair->answer, pair->copy);
        const std::lock_guard lock(self->mutex_);
        route->Compared(d);
      },
      Place::kAside);
}

Status Routes::RecordOutcome(const Ticket& ticket, bool good) {
  if (core_->forked()) return InvalidArgument(kForked);
  const std::lock_guard lock(mutex_);
  const auto it = routes_.find(ticket.route);
  if (it == routes_.end() || it->second->generation() != ticket.generation)
    return InvalidArgument(
        Cat("route '", ticket.route, "' has been set anew or removed since it gave this ticket"));
  if (!it->second->Label(ticket.model, good))
    return InvalidArgument(Cat("route '", ticket.route, "' has no variant '", ticket.model, "'"));
  return {};
}

std::vector<RouteStats> Routes::Stats() {
  std::vector<RoutePtr> all;
  if (core_->forked()) return {};
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, route] : routes_) all.push_back(route);
  }
  std::vector<RouteStats> stats;
  for (const RoutePtr& route : all) {
    const std::vector<ModelLoad> loads = LoadsOf(*route);
    const std::lock_guard lock(mutex_);
    stats.push_back(route->Stats(loads, core_->NowNs()));
  }
  return stats;
}

}  // namespace infer::engine
