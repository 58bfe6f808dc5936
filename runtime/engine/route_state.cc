#include "runtime/engine/route_state.h"

#include <algorithm>

#include "lib/support/hash.h"
#include "lib/support/strings.h"

namespace infer::engine {
namespace {

uint64_t SeedOf(const RouteMode& mode) {
  return std::visit(
      [](const auto& m) -> uint64_t {
        if constexpr (requires { m.seed; }) return m.seed;
        return 0;
      },
      mode);
}

std::vector<double> Weights(const RoutePolicy& policy) {
  std::vector<double> weights;
  for (const RouteVariant& v : policy.variants) weights.push_back(v.weight.value_or(1));
  return weights;
}

Blame BlameOf(const Outcome& o) {
  switch (o.end) {
    case State::kSucceeded: return Blame::kGood;
    case State::kFailed:
    case State::kTimedOut: return Blame::kBad;
    default: return Blame::kNeither;
  }
}

/// A queue that is full fails whoever asked, though it is no reason to ask nobody.
bool Overloaded(const Outcome& o) {
  return o.end == State::kRejected && o.status.code() == Code::kResource;
}

/// Position of a variant that a rule of router.h chose.
std::optional<size_t> At(const std::vector<Variant>& all, const Variant* chosen) {
  return chosen ? std::optional(static_cast<size_t>(chosen - all.data())) : std::nullopt;
}

constexpr const char* kNoneReady = "no variant is ready";
constexpr size_t kMostCounted = 131'072;  // some 5 MB

RouteState::Picked OrNoneReady(std::optional<size_t> variant) {
  return {variant, variant ? "" : kNoneReady};
}

}  // namespace

RouteState::RouteState(std::string name, RoutePolicy policy, int64_t generation, int64_t now_ns)
    : name_(std::move(name)),
      policy_(std::move(policy)),
      generation_(generation),
      arms_(policy_.variants.size()),
      random_(SeedOf(policy_.mode)),
      judge_ns_(canary() ? After(now_ns, canary()->rules.interval_ns) : kNever) {
  for (size_t i = 0; i < arms_.size(); ++i) arms_[i].stats.model = model(i);
  const auto* split = std::get_if<SplitRoute>(&policy_.mode);
  if (split && split->experiment) experiment_.emplace(*split->experiment, Weights(policy_));
}

bool RouteState::Ready(size_t variant, const ModelLoad& load, int64_t now_ns) const {
  return load.ready && arms_[variant].breaker.Lets(policy_.breaker, now_ns);
}

std::vector<Variant> RouteState::Variants(std::span<const ModelLoad> loads, int64_t now_ns) const {
  std::vector<Variant> all;
  for (size_t i = 0; i < arms_.size(); ++i) {
    const RouteVariant& v = policy_.variants[i];
    all.push_back({.model = v.model,
                   .weight = v.weight.value_or(1),
                   .ready = Ready(i, loads[i], now_ns),
                   .outstanding = loads[i].waiting + loads[i].running,
                   .accuracy = v.accuracy.value_or(0),
                   .expected_ns = ExpectedNs(loads[i], v.run_ns.value_or(0))});
  }
  return all;
}

RouteState::Picked RouteState::Pick(const Request& request, std::span<const ModelLoad> loads,
                                    int64_t now_ns) {
  JudgeIfDue(now_ns);
  ++submitted_;
  if (const SequenceStep& step = request.sequence; !step.id.empty()) {
    if (std::holds_alternative<CascadeRoute>(policy_.mode))
      return {{}, "a cascade takes no sequences"};
    for (size_t i = 0; i < loads.size(); ++i)
      if (loads[i].holds_sequence) return {i, ""};
    if (!step.begins) return {{}, Cat("no variant has the sequence '", step.id, "'")};
  }
  const std::vector<Variant> all = Variants(loads, now_ns);
  // Without a key each request is its own.
  const std::string key = request.key.empty() ? Cat(submitted_) : request.key;
  const auto* affinity = std::get_if<AffinityRoute>(&policy_.mode);
  const bool by_device = affinity && affinity->by == AffinityRoute::By::kDevice;
  if (!by_device && !request.device.empty())
    return {{}, Cat("it does not choose by device, the request asks for '", request.device, "'")};
  if (by_device) return PickByDevice(all, request.device);
  if (affinity) {
    if (request.key.empty()) return {{}, "it chooses by key, the request has none"};
    return OrNoneReady(At(all, Split(all, affinity->salt, key)));
  }
  if (const auto* split = std::get_if<SplitRoute>(&policy_.mode)) {
    Picked picked = OrNoneReady(At(all, Split(all, split->salt, key)));
    CountShare(picked, request.key);
    return picked;
  }
  if (canary()) return PickCanary(all, *canary(), key);
  if (std::holds_alternative<BalanceRoute>(policy_.mode))
    return OrNoneReady(At(all, LeastOfTwo(all, random_)));
  if (const auto* slo = std::get_if<SloRoute>(&policy_.mode))
    return PickInTime(all, *slo, request.timeout_ns);
  if (std::holds_alternative<ShadowRoute>(policy_.mode))
    return OrNoneReady(all[0].ready ? std::optional<size_t>(0) : std::nullopt);
  const auto first = std::find_if(all.begin(), all.end(), [](const Variant& v) { return v.ready; });
  return OrNoneReady(At(all, first == all.end() ? nullptr : &*first));
}

/// Shares are of keys, so each counts once: a few that send most of the requests prove nothing.
void RouteState::CountShare(const Picked& picked, const std::string& key) {
  if (!experiment_ || !picked.variant) return;
  if (!key.empty()) {
    if (counted_.size() >= kMostCounted) return;
    if (!counted_.insert(HashBytes(key.data(), key.size())).second) return;
  }
  experiment_->Assigned(*picked.variant);
}

RouteState::Picked RouteState::PickCanary(std::vector<Variant> all, const CanaryRoute& mode,
                                          const std::string& key) {
  Variant &stable = all[0], &candidate = all[1];
  const bool stable_ready = stable.ready;
  candidate.weight = canary_.share(mode.rules);
  stable.weight = 1 - candidate.weight;
  if (canary_.phase == Canary::Phase::kPromoted) {
    if (candidate.ready) return {1, ""};
    return OrNoneReady(stable_ready ? std::optional<size_t>(0) : std::nullopt);
  }
  // The canary is given its share and no more, also where the stable one cannot answer.
  stable.ready = true;
  const std::optional<size_t> picked = At(all, Split(all, mode.salt, key));
  if (picked == 0 && !stable_ready) return {{}, "the stable variant is not ready"};
  return OrNoneReady(picked);
}

RouteState::Picked RouteState::PickByDevice(std::vector<Variant> all, const std::string& device) {
  bool known = false;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool there = policy_.variants[i].device == device;
    known |= there;
    all[i].ready = all[i].ready && there;
  }
  if (device.empty()) return {{}, "it chooses by device, the request names none"};
  if (!known) return {{}, Cat("no variant runs on device '", device, "'")};
  return OrNoneReady(At(all, LeastOfTwo(all, random_)));
}

RouteState::Picked RouteState::PickInTime(const std::vector<Variant>& all, const SloRoute& mode,
                                          int64_t timeout_ns) {
  const InTime chosen = MostAccurateInTime(all, mode.margin, timeout_ns);
  if (chosen.variant && !chosen.in_time) ++late_;
  return OrNoneReady(At(all, chosen.variant));
}

std::optional<size_t> RouteState::Next(size_t variant, std::span<const ModelLoad> loads,
                                       int64_t now_ns) const {
  for (size_t i = variant + 1; i < arms_.size(); ++i)
    if (Ready(i, loads[i], now_ns)) return i;
  return std::nullopt;
}

std::vector<size_t> RouteState::Copies(std::span<const ModelLoad> loads, int64_t now_ns) {
  std::vector<size_t> to;
  const auto* mode = std::get_if<ShadowRoute>(&policy_.mode);
  if (!mode) return to;
  for (size_t i = 1; i < arms_.size(); ++i) {
    if (random_.Uniform() >= mode->share) continue;
    const int64_t waiting = loads[i].waiting + loads[i].running;
    if (Ready(i, loads[i], now_ns) && waiting < mode->most_waiting)
      to.push_back(i);
    else
      ++shadow_.dropped;
  }
  return to;
}

RouteState::Sent RouteState::Send(size_t variant, int64_t now_ns) {
  Arm& arm = arms_[variant];
  const Sent sent{++sent_, variant, arm.breaker.Sent()};
  ++arm.stats.sent;
  if (canary() && variant == 1) arm.open.emplace(sent.id, now_ns);
  return sent;
}

void RouteState::Ended(const Sent& sent, const Outcome& o, int64_t now_ns) {
  Arm& arm = arms_[sent.variant];
  ++arm.stats.ends[EndIndex(o.end)];
  const Blame blame = BlameOf(o);
  arm.breaker.Ended(policy_.breaker, blame, sent.probe, now_ns);
  if (blame == Blame::kGood) arm.stats.total_ns.Record(o.phases.total_ns);
  if (experiment_ && !experiment_->rules().by_labels && blame != Blame::kNeither)
    experiment_->Ended(sent.variant, blame == Blame::kGood);
  if (!canary()) return;
  arm.open.erase(sent.id);
  if (blame == Blame::kGood) arm.recent_ns.Record(o.phases.total_ns);
  const bool bad = blame == Blame::kBad || Overloaded(o);
  arm.requests += bad || blame == Blame::kGood ? 1 : 0;
  arm.errors += bad ? 1 : 0;
  JudgeIfDue(now_ns);
}

/// Requests that have waited for longer than would be tolerated count as if they ended now, so that
/// a canary that answers nothing is judged, too.
void RouteState::JudgeIfDue(int64_t now_ns) {
  if (now_ns < judge_ns_) return;
  const CanaryRules& rules = canary()->rules;
  judge_ns_ = After(now_ns, rules.interval_ns);
  Arm &stable = arms_[0], &candidate = arms_[1];
  const double stable_p99 = stable.recent_ns.Quantile(0.99);
  Histogram recent = candidate.recent_ns;
  int64_t overdue = 0;
  for (const auto& [id, came_ns] : candidate.open) {
    if (stable_p99 <= 0 ||
        static_cast<double>(now_ns - came_ns) <= rules.most_slowdown * stable_p99)
      break;
    recent.Record(now_ns - came_ns);
    ++overdue;
  }
  const Seen seen_stable{stable.requests, stable.errors, stable_p99 / 1e6};
  const Seen seen{candidate.requests + overdue, candidate.errors, recent.Quantile(0.99) / 1e6,
                  candidate.breaker.opened() > candidate.opened};
  candidate.opened = candidate.breaker.opened();
  canary_ = Judge(rules, canary_, seen_stable, seen);
  if (seen.requests < rules.least_samples) return;
  for (Arm* arm : {&stable, &candidate}) {
    arm->requests = arm->errors = 0;
    arm->recent_ns.Clear();
  }
}

void RouteState::Unsure(size_t variant, bool readable) {
  ++(readable ? arms_[variant].stats.unsure : arms_[variant].stats.unreadable);
}

void RouteState::Compared(const Difference& d) {
  if (!d.comparable) {
    ++shadow_.incomparable;
    return;
  }
  ++shadow_.compared;
  shadow_.rows += d.rows;
  shadow_.other_top1 += d.other_top1;
  shadow_.worst = std::max(shadow_.worst, d.worst);
}

bool RouteState::Label(const std::string& model, bool good) {
  for (size_t i = 0; i < arms_.size(); ++i) {
    if (policy_.variants[i].model != model) continue;
    ++arms_[i].stats.labels.count;
    arms_[i].stats.labels.successes += good ? 1 : 0;
    if (experiment_ && experiment_->rules().by_labels) experiment_->Ended(i, good);
    return true;
  }
  return false;
}

double RouteState::ShareOf(size_t variant) const {
  if (canary()) {
    const double share = canary_.share(canary()->rules);
    return variant == 1 ? share : 1 - share;
  }
  if (const auto* shadow = std::get_if<ShadowRoute>(&policy_.mode))
    return variant == 0 ? 1 : shadow->share;
  const auto* affinity = std::get_if<AffinityRoute>(&policy_.mode);
  const bool weighted = std::holds_alternative<SplitRoute>(policy_.mode) ||
                        std::holds_alternative<BalanceRoute>(policy_.mode) ||
                        (affinity && affinity->by == AffinityRoute::By::kKey);
  if (!weighted) return 0;
  double sum = 0;
  const std::vector<double> weights = Weights(policy_);
  for (double w : weights) sum += w;
  return weights[variant] / sum;
}

RouteStats RouteState::Stats(std::span<const ModelLoad> loads, int64_t now_ns) {
  JudgeIfDue(now_ns);
  RouteStats s{.route = name_,
               .mode = NameOf(policy_.mode),
               .submitted = submitted_,
               .rejected = rejected_,
               .gave_up = gave_up_,
               .late = late_};
  for (size_t i = 0; i < arms_.size(); ++i) {
    VariantStats& v = s.variants.emplace_back(arms_[i].stats);
    v.breaker = arms_[i].breaker.state();
    v.breaker_opened = arms_[i].breaker.opened();
    v.ready = loads[i].ready && v.breaker == Breaker::State::kClosed;
    v.share = ShareOf(i);
  }
  if (canary()) s.canary = canary_;
  if (std::holds_alternative<ShadowRoute>(policy_.mode)) s.shadow = shadow_;
  if (!experiment_) return s;
  s.experiment = experiment_->verdict();
  s.trials = experiment_->trials();
  return s;
}

}  // namespace infer::engine
