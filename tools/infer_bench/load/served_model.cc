#include "tools/infer_bench/load/served_model.h"

#include <chrono>
#include <numeric>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/infer_bench/load/fault_text.h"
#include "tools/infer_bench/load/latencies.h"
#include "tools/infer_bench/load/route_report.h"

namespace infer::bench {
namespace {

using engine::Histogram;
using engine::Outcome;
using engine::Priority;
using engine::State;

template <typename Reason, size_t kCount>
Json CountsJson(const std::array<int64_t, kCount>& counts) {
  Json j = Json::object();
  for (size_t i = 0; i < kCount; ++i) j[std::string(Name(static_cast<Reason>(i)))] = counts[i];
  return j;
}

template <typename Reason, size_t kCount>
std::string CountsText(const std::array<int64_t, kCount>& counts) {
  std::string text;
  for (size_t i = 0; i < kCount; ++i)
    if (counts[i] > 0)
      text += Cat(text.empty() ? "" : ", ", Name(static_cast<Reason>(i)), " ", counts[i]);
  return text.empty() ? "none" : text;
}

std::string EndsText(const std::array<int64_t, engine::kEnds>& ends) {
  std::string text;
  for (size_t i = 0; i < ends.size(); ++i)
    if (ends[i] > 0)
      text +=
          Cat(text.empty() ? "" : ", ",
              Name(static_cast<State>(static_cast<size_t>(State::kSucceeded) + i)), " ", ends[i]);
  return text;
}

/// ms, or a share.
double Shown(const engine::Anomaly& a, double value) {
  return a.figure == engine::Figure::kErrors ? value : value / kNsPerMs;
}

/// Counts and times of two models together.
void Add(engine::ModelStats& all, const engine::ModelStats& one) {
  all.submitted += one.submitted;
  all.runs += one.runs;
  for (size_t i = 0; i < all.ends.size(); ++i) all.ends[i] += one.ends[i];
  for (size_t i = 0; i < all.fired.size(); ++i) all.fired[i] += one.fired[i];
  for (size_t i = 0; i < all.single.size(); ++i) all.single[i] += one.single[i];
  for (const auto& [rows, runs] : one.batch_rows) all.batch_rows[rows] += runs;
  for (size_t i = 0; i < all.padding.size(); ++i) all.padding[i] += one.padding[i];
  all.nodes.insert(all.nodes.end(), one.nodes.begin(), one.nodes.end());
  all.padded_from += one.padded_from;
  all.padded_to += one.padded_to;
  if (all.unpaddable.empty()) all.unpaddable = one.unpaddable;
  all.times.total.Merge(one.times.total);
  if (all.unbatchable.empty()) all.unbatchable = one.unbatchable;
}

const Histogram& Succeeded(const engine::Times& times, size_t phase) {
  return times.by[engine::EndIndex(State::kSucceeded)][phase];
}

}  // namespace

void ServeOptions::Declare(Options& o) {
  o.Flag("--engine", &engine,
         "Queries go through the inference engine: queue, batches, priorities (docs/engine.md)");
  o.Value("--max-batch", &max_batch,
          "Of the engine: rows that a run may have; 1: requests are not batched", 1);
  o.Value("--batch-delay", &batch_delay_ms,
          "Of the engine: ms that a request may wait for others while an instance is free");
  o.Flag("--adapt-batch", &adapt_batch,
         "Of the engine: runs have fewer rows than --max-batch where trials say that this is "
         "faster");
  o.Values("--pad-to", &pad_to,
           "Of the engine: extents of buckets, to the next of which requests are padded where that "
           "is proved to change nothing: 32,64,128");
  o.Value("--pad-axis", &pad_axis,
          "Of --pad-to: the extent, as the model names it; without it the first that is proved");
  o.Values("--priorities", &priorities,
           "Of the engine: shares of queries of high, normal and low priority: 1,8,1");
  o.Value("--route", &route,
          "Of the engine: a router policy in TOML or JSON, which names variants of the model "
          "(docs/engine.md)",
          PathUse::kRead);
  o.Value("--keys", &keys, "Of a route: queries have so many keys, drawn from --seed; 0: none");
  o.Value("--deadline", &deadline_ms,
          "Of the engine: ms after which a query times out, which then counts as its answer");
  o.Choice("--placement", &placement, {"anywhere", "nodes", "cores"},
           "Of the engine: instances keep to a NUMA node, or each lane of a run to a core of one");
  o.Values("--fault", &faults, kFaultHelp);
}

Result<std::array<double, engine::kPriorities>> ServeOptions::Shares() const {
  std::array<double, engine::kPriorities> shares = {0, 1, 0};
  if (!engine && (max_batch > 1 || batch_delay_ms > 0 || !priorities.empty()))
    return InvalidArgument("--max-batch, --batch-delay and --priorities go with --engine");
  if (!engine && (!route.empty() || deadline_ms > 0 || !faults.empty()))
    return InvalidArgument("--route, --deadline and --fault go with --engine");
  if (!engine && placement != "anywhere") return InvalidArgument("--placement goes with --engine");
  INFER_TRY(ParseFaults(faults, 0).status());
  if (route.empty() && keys > 0) return InvalidArgument("--keys goes with --route");
  if (!engine && !pad_to.empty()) return InvalidArgument("--pad-to goes with --engine");
  if (!pad_axis.empty() && pad_to.empty()) return InvalidArgument("--pad-axis goes with --pad-to");
  if (adapt_batch && max_batch == 1)
    return InvalidArgument("--adapt-batch goes with --max-batch above 1");
  if (batch_delay_ms > 0 && max_batch == 1)
    return InvalidArgument("--batch-delay goes with --max-batch above 1");
  if (priorities.empty()) return shares;
  double sum = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto share =
        priorities.size() == shares.size() ? ParseDouble(priorities[i]) : std::nullopt;
    if (!share || !(*share >= 0))
      return InvalidArgument("--priorities takes three shares, of high, normal and low: 1,8,1");
    sum += shares[i] = *share;
  }
  if (!(sum > 0)) return InvalidArgument("--priorities: no share is above 0");
  for (double& s : shares) s /= sum;
  return shares;
}

Result<engine::Buckets> ServeOptions::Buckets() const {
  engine::Buckets buckets{.symbol = pad_axis};
  for (const std::string& text : pad_to) {
    const auto extent = ParseInt(text);
    if (!extent || *extent <= 0)
      return InvalidArgument(Cat("--pad-to: '", text, "' is no extent above 0"));
    buckets.extents.push_back(*extent);
  }
  return buckets;
}

Result<std::unique_ptr<ServedModel>> ServedModel::Make(ServedVariants variants,
                                                       std::vector<Datum> inputs, int64_t batch,
                                                       int instances, const ServeOptions& options,
                                                       uint64_t seed, const std::stop_token& stop) {
  if (batch <= 0) return InvalidArgument("a batch of 0 has no samples to answer");
  INFER_ASSIGN(const auto shares, options.Shares());
  for (const engine::ModelSource& source : variants.sources)
    if (options.max_batch > 1 && !source.axes.proved)
      return InvalidArgument(Cat("--max-batch ", options.max_batch,
                                 ": requests may not share a run (--set, --shape and --batch fix "
                                 "extents): ",
                                 source.axes.reason));
  std::unique_ptr<ServedModel> m(
      new ServedModel(std::move(variants), std::move(inputs), batch, instances, options, seed));
  INFER_ASSIGN(m->buckets_, options.Buckets());
  if (!options.faults.empty()) {
    INFER_ASSIGN(engine::FaultPlan plan, ParseFaults(options.faults, seed));
    INFER_ASSIGN(m->faults_, engine::FaultInjector::Make(std::move(plan)));
    for (engine::ModelSource& source : m->variants_.sources)
      source.program = engine::WithFaults(std::move(source.program), m->faults_);
  }
  for (size_t i = 0; i < shares.size(); ++i) m->by_priority_[i].share = shares[i];
  m->on_stop_.emplace(stop, [served = m.get()] { served->cancel_.request_stop(); });
  INFER_ASSIGN(m->engine_,
               engine::Engine::Make({.threads = instances,
                                     .placement = *engine::PlacementOf(options.placement),
                                     .clock = m->clock_}));
  INFER_TRY(m->Load("warm-up"));
  return m;
}

ServedModel::~ServedModel() { on_stop_.reset(); }

std::string ServedModel::ModelName(const std::string& name, size_t variant) const {
  return variants_.route ? Cat(name, "/", variants_.names[variant]) : name;
}

engine::BatchRules ServedModel::Rules() const {
  return {.max_rows = options_.max_batch,
          .max_delay_ns = static_cast<int64_t>(options_.batch_delay_ms * kNsPerMs),
          .adapts = options_.adapt_batch};
}

Status ServedModel::Load(const std::string& name) {
  for (size_t i = 0; i < variants_.sources.size(); ++i)
    INFER_TRY(
        engine_->Load(ModelName(name, i), variants_.sources[i],
                      {.instances = instances_,
                       // An open loop queues without a limit.
                       .queue = {.max_requests = int64_t{1} << 40, .max_bytes = int64_t{1} << 50},
                       .batch = Rules(),
                       .buckets = buckets_,
                       .warm_inputs = inputs_}));
  if (variants_.route) {
    engine::RoutePolicy policy = *variants_.route;
    for (size_t i = 0; i < policy.variants.size(); ++i)
      policy.variants[i].model = ModelName(name, i);
    INFER_TRY(engine_->SetRoute(name, std::move(policy)));
  }
  name_ = name;
  return {};
}

Status ServedModel::BeginMeasuring() {
  const std::string before = name_;
  INFER_TRY(Load("measured"));
  for (OfPriority& p : by_priority_) p.total_ns.Clear();
  if (variants_.route) INFER_TRY(engine_->RemoveRoute(before));
  for (size_t i = 0; i < variants_.sources.size(); ++i)
    INFER_TRY(engine_->Unload(ModelName(before, i)));
  watches_.assign(variants_.names.size(), engine::AnomalyWatch());
  seen_.clear();
  began_ns_ = clock_->NowNs();
  watched_slot_ = began_ns_ / engine::kTelemetrySlotNs;
  if (faults_) faults_->Begin();
  return {};
}

double ServedModel::NowMs() { return static_cast<double>(clock_->NowNs()) / kNsPerMs; }

Priority ServedModel::Draw() {
  double at = random_.Uniform();
  for (size_t i = 0; i + 1 < by_priority_.size(); ++i) {
    if (at < by_priority_[i].share) return static_cast<Priority>(i);
    at -= by_priority_[i].share;
  }
  return by_priority_.back().share > 0 ? Priority::kLow : Priority::kNormal;
}

engine::Request ServedModel::NextRequest(Priority priority) {
  engine::Request r{
      .model = name_, .inputs = inputs_, .priority = priority, .stop = cancel_.get_token()};
  if (options_.deadline_ms > 0)
    r.timeout_ns = static_cast<int64_t>(std::min(options_.deadline_ms * kNsPerMs, 9e18));
  if (options_.keys > 0)
    r.key = Cat(static_cast<int64_t>(random_.Uniform() * static_cast<double>(options_.keys)));
  if (!variants_.route) return r;
  // A device is asked for as often as it has variants.
  const auto& all = variants_.route->variants;
  const engine::RouteVariant& any = all[random_.Below(static_cast<uint32_t>(all.size()))];
  r.device = any.device.value_or("");
  return r;
}

ServedModel::Requests ServedModel::Begin(int64_t id, int64_t samples) {
  Requests begun{.query = std::make_shared<Query>()};
  begun.query->done.id = id;
  begun.query->open = (samples + batch_ - 1) / batch_;
  open_ += begun.query->open;
  for (int64_t i = 0; i < begun.query->open; ++i) begun.requests.push_back(NextRequest(Draw()));
  return begun;
}

void ServedModel::HandOver(Requests begun) {
  for (engine::Request& r : begun.requests) {
    const Priority priority = r.priority;
    engine_->Submit(std::move(r), [this, query = begun.query, priority, at = NowMs()](Outcome o) {
      Ended(query, at, priority, std::move(o));
    });
  }
}

void ServedModel::Submit(int64_t id, int64_t samples) {
  std::unique_lock lock(mutex_);
  Requests begun = Begin(id, samples);
  lock.unlock();
  HandOver(std::move(begun));
}

bool ServedModel::FollowAnswers(const NextFn& next, int64_t samples) {
  const std::lock_guard lock(mutex_);
  next_ = next;
  next_samples_ = samples;
  return true;
}

void ServedModel::Ended(const std::shared_ptr<Query>& query, double submitted_ms, Priority priority,
                        Outcome o) {
  const double finished_ms = NowMs();
  if (o.end == State::kSucceeded)
    by_priority_[static_cast<size_t>(priority)].total_ns.Record(o.phases.total_ns);
  std::unique_lock lock(mutex_);
  Done& done = query->done;
  const double started_ms =
      submitted_ms + static_cast<double>(o.phases.queue_ns + o.phases.batch_ns) / kNsPerMs;
  if (done.started_ms == 0 || started_ms < done.started_ms) done.started_ms = started_ms;
  const bool late = o.end == State::kTimedOut && options_.deadline_ms > 0;
  const bool planned = faults_ && (o.end == State::kFailed || o.end == State::kRejected);
  if (done.status.ok() && !late && !planned) done.status = std::move(o.status);
  --open_;
  std::optional<int64_t> next;
  if (--query->open == 0) {
    if (next_ && o.end == State::kSucceeded && done.status.ok()) next = next_();
    done.finished_ms = finished_ms;
    done_.push_back(std::move(done));
  }
  if (!next) {
    answered_.notify_one();
    return;
  }
  Requests begun = Begin(*next, next_samples_);
  lock.unlock();
  HandOver(std::move(begun));
}

std::vector<Done> ServedModel::Wait(double until_ms) {
  Watch();
  using Steady = std::chrono::steady_clock;
  const Steady::time_point until(
      std::chrono::nanoseconds(static_cast<int64_t>(until_ms * kNsPerMs)));
  std::unique_lock lock(mutex_);
  answered_.wait_until(lock, until, [&] { return !done_.empty(); });
  return std::exchange(done_, {});
}

/// Looks at the last slot of telemetry, if it was not looked at yet.
void ServedModel::Watch() {
  const int64_t slot = clock_->NowNs() / engine::kTelemetrySlotNs - 1;
  if (watches_.empty() || slot <= watched_slot_) return;
  watched_slot_ = slot;
  for (const engine::ModelStats& s : engine_->Stats())
    for (size_t i = 0; i < watches_.size(); ++i) {
      if (s.model != ModelName(name_, i)) continue;
      const auto end_ns = static_cast<double>((s.times.slot + 1) * engine::kTelemetrySlotNs);
      for (const engine::Anomaly& a :
           watches_[i].See(engine::FiguresOf(s.times.last_slot, s.times.slot)))
        seen_.push_back({i, (end_ns - static_cast<double>(began_ns_)) / 1e9, a});
    }
}

void ServedModel::Abandon() {
  cancel_.request_stop();
  std::unique_lock lock(mutex_);
  answered_.wait(lock, [&] { return open_ == 0; });
  done_.clear();
  cancel_ = {};
}

engine::ModelStats ServedModel::Stats() const {
  engine::ModelStats all;
  for (const engine::ModelStats& s : engine_->Stats())
    for (size_t i = 0; i < variants_.names.size(); ++i)
      if (s.model == ModelName(name_, i)) Add(all, s);
  return all;
}

std::optional<engine::RouteStats> ServedModel::StatsOfRoute() const {
  for (engine::RouteStats& r : engine_->StatsOfRoutes())
    if (r.route == name_) return std::move(r);
  return std::nullopt;
}

std::vector<AdvisedModel> ServedModel::Advise() const {
  engine::Observed o{.seconds = static_cast<double>(clock_->NowNs() - began_ns_) / 1e9,
                     .instances = instances_,
                     .most_instances = options_.most_instances,
                     .batch = Rules(),
                     .queue = {.max_requests = engine::kNever},
                     .has_buckets = !buckets_.extents.empty()};
  if (options_.deadline_ms > 0)
    o.timeout_ns = static_cast<int64_t>(options_.deadline_ms * kNsPerMs);
  std::vector<AdvisedModel> models;
  for (engine::ModelStats& s : engine_->Stats())
    for (size_t i = 0; i < variants_.names.size(); ++i) {
      if (s.model != ModelName(name_, i)) continue;
      o.stats = std::move(s);
      o.batchable = variants_.sources[i].axes.proved;
      models.push_back({variants_.names[i], engine::Recommend(o)});
      break;
    }
  const auto route = StatsOfRoute();
  if (!route || models.empty()) return models;
  if (auto r = engine::RecommendVariant(*route, *variants_.route)) {
    for (std::string* name : {&r->from, &r->to})
      if (const auto slash = name->find('/'); slash != std::string::npos)
        name->erase(0, slash + 1);  // ModelName
    models[0].advised.recommendations.push_back(*std::move(r));
    models[0].advised.none.clear();
  }
  return models;
}

Json ServedModel::StatsJson() const {
  const engine::ModelStats s = Stats();
  Json j = {{"instances", instances_},
            {"max_batch", options_.max_batch},
            {"batch_delay_ms", options_.batch_delay_ms},
            {"adapt_batch", options_.adapt_batch},
            {"placement", options_.placement},
            {"nodes", s.nodes},
            {"unbatchable", s.unbatchable.empty() ? Json() : Json(s.unbatchable)},
            {"pad_to", buckets_.extents},
            {"unpaddable", s.unpaddable.empty() ? Json() : Json(s.unpaddable)},
            {"padding", CountsJson<engine::Padding>(s.padding)},
            {"padded_extent", {{"from", s.padded_from}, {"to", s.padded_to}}},
            {"runs", s.runs},
            {"fired", CountsJson<engine::Fired>(s.fired)},
            {"single", CountsJson<engine::Single>(s.single)}};
  j["ends"] = EndsJson(s.ends);
  j["batch_rows"] = Json::array();
  for (const auto& [rows, runs] : s.batch_rows)
    j["batch_rows"].push_back({{"rows", rows}, {"runs", runs}});
  j["phases_ms"] = Json::object();
  for (size_t p = 0; p < engine::kPhases; ++p)
    j["phases_ms"][std::string(Name(static_cast<engine::Phase>(p)))] =
        TimesJson(Succeeded(s.times.total, p));
  j["priorities"] = Json::array();
  for (size_t p = 0; p < by_priority_.size(); ++p)
    j["priorities"].push_back({{"priority", Name(static_cast<Priority>(p))},
                               {"share", by_priority_[p].share},
                               {"total_ms", TimesJson(by_priority_[p].total_ns)}});
  j["anomalies"] = Json::array();
  for (const Seen& a : seen_)
    j["anomalies"].push_back({{"variant", variants_.names[a.variant]},
                              {"at_s", a.at_s},
                              {"figure", Name(a.anomaly.figure)},
                              {"by", Name(a.anomaly.by)},
                              {"value", Shown(a.anomaly, a.anomaly.value)},
                              {"usual", Shown(a.anomaly, a.anomaly.usual)},
                              {"z", a.anomaly.z}});
  const std::vector<AdvisedModel> advised = Advise();
  j["recommendations"] = RecommendationsJson(advised);
  j["no_recommendation"] = NoRecommendationJson(advised);
  j["faults"] = faults_ ? FaultsJson(faults_->Counts()) : Json::array();
  const auto route = StatsOfRoute();
  j["route"] = route ? ToJson(*route, variants_.names) : Json();
  return j;
}

std::string ServedModel::StatsTable() const {
  const engine::ModelStats s = Stats();
  std::vector<std::vector<std::string>> rows = {TimesHeads("engine, ms")};
  for (size_t p = 0; p < engine::kPhases; ++p)
    rows.push_back(
        TimesRow(std::string(Name(static_cast<engine::Phase>(p))), Succeeded(s.times.total, p)));
  for (size_t p = 0; p < by_priority_.size(); ++p)
    if (by_priority_[p].total_ns.count() > 0 && by_priority_[p].share < 1)
      rows.push_back(TimesRow(Cat("total, ", Name(static_cast<Priority>(p)), " priority"),
                              by_priority_[p].total_ns));
  std::string out = TextTable(rows);
  out += Cat(s.runs, " runs; began: ", CountsText<engine::Fired>(s.fired),
             "; served one request alone: ", CountsText<engine::Single>(s.single), "\n");
  if (options_.max_batch > 1) {
    out += "rows of a run:";
    for (const auto& [n, runs] : s.batch_rows) out += Cat(" ", n, " (", runs, "x)");
    out += "\n";
  } else if (!s.unbatchable.empty()) {
    out += Cat("not batched: ", s.unbatchable, "\n");
  }
  if (!s.unpaddable.empty()) out += Cat("not padded: ", s.unpaddable, "\n");
  if (!buckets_.extents.empty() && s.unpaddable.empty())
    out += Cat("padding of requests: ", CountsText<engine::Padding>(s.padding), "; extents ",
               s.padded_from, " -> ", s.padded_to, "\n");
  for (const Seen& a : seen_)
    out += Cat("anomaly at ", Fixed(a.at_s, 0), " s",
               variants_.route ? Cat(" of ", variants_.names[a.variant]) : "", ": ",
               Name(a.anomaly.figure), " ", Rounded(Shown(a.anomaly, a.anomaly.value), 3),
               ", usual ", Rounded(Shown(a.anomaly, a.anomaly.usual), 3),
               a.anomaly.figure == engine::Figure::kErrors ? " of requests" : " ms", " (",
               Name(a.anomaly.by), ")\n");
  if (faults_) out += Cat("ends: ", EndsText(s.ends), "\n", FaultsText(faults_->Counts()));
  if (const auto route = StatsOfRoute()) out += RouteTable(*route, variants_.names);
  return out + RecommendationsText(Advise());
}

}  // namespace infer::bench
