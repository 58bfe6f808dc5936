#include "tools/infer_bench/load/served_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/infer_bench/load/fault_text.h"
#include "tools/infer_bench/load/latencies.h"

namespace infer::bench {
namespace {

using engine::Outcome;
using engine::Priority;
using engine::State;

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
  o.Values("--also", &also,
           "Of the engine: further models beside the first, with inputs of their own: each query "
           "goes to one of them",
           PathUse::kRead);
  o.Values("--shares", &shares,
           "Of --also: shares of queries, the first model's in front, drawn from --seed: 3,1. "
           "Default: alike");
  o.Value("--keys", &keys, "Of a route: queries have so many keys, drawn from --seed; 0: none");
  o.Value("--deadline", &deadline_ms,
          "Of the engine: ms after which a query times out, which then counts as its answer");
  o.Value("--model-memory", &model_memory_mib,
          "Of the engine: MiB that weights and activations of a model may take; runs have as many "
          "rows as fit. 0: any");
  o.Choice("--placement", &placement, {"anywhere", "nodes", "cores"},
           "Of the engine: instances keep to a NUMA node, or each lane of a run to a core of one");
  o.Values("--fault", &faults, kFaultHelp);
  o.Value("--save-arrivals", &save_arrivals,
          "Of the engine: write when queries came, with priority and key, to a CSV for --replay",
          PathUse::kWrite);
  o.Value("--trace-requests", &trace_requests,
          "Of the engine: write the last 65,536 requests to FILE for chrome://tracing or Perfetto, "
          "each with its phases",
          PathUse::kWrite);
}

Result<std::array<double, engine::kPriorities>> ServeOptions::Shares() const {
  std::array<double, engine::kPriorities> shares = {0, 1, 0};
  if (!engine && (max_batch > 1 || batch_delay_ms > 0 || !priorities.empty()))
    return InvalidArgument("--max-batch, --batch-delay and --priorities go with --engine");
  if (!engine && (!route.empty() || deadline_ms > 0 || !faults.empty()))
    return InvalidArgument("--route, --deadline and --fault go with --engine");
  if (!engine && model_memory_mib > 0) return InvalidArgument("--model-memory goes with --engine");
  if (!engine && !save_arrivals.empty())
    return InvalidArgument("--save-arrivals goes with --engine");
  if (!engine && !trace_requests.empty())
    return InvalidArgument("--trace-requests goes with --engine");
  if (replay && replay->has_priority && (!engine || !priorities.empty()))
    return InvalidArgument("--replay: priorities go with --engine, and without --priorities");
  if (replay && replay->has_key && (route.empty() || keys > 0))
    return InvalidArgument("--replay: keys go with --route, and without --keys");
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
  if (!(sum > 0 && std::isfinite(sum)))
    return InvalidArgument("--priorities: no share is above 0, or one is without an end");
  for (double& s : shares) s /= sum;
  return shares;
}

Result<std::vector<double>> ServeOptions::ModelShares() const {
  if (also.empty() && !shares.empty()) return InvalidArgument("--shares goes with --also");
  if (also.empty()) return std::vector<double>();
  if (!engine) return InvalidArgument("--also goes with --engine");
  if (!route.empty()) return InvalidArgument("--also or --route, not both");
  if (!pad_to.empty()) return InvalidArgument("--pad-to names an extent of one model: no --also");
  const size_t models = also.size() + 1;
  if (shares.empty()) return std::vector<double>(models, 1.0 / static_cast<double>(models));
  std::vector<double> out;
  double sum = 0;
  for (const std::string& text : shares) {
    const auto share = ParseDouble(text);
    if (!share || !(*share > 0))
      return InvalidArgument(Cat("--shares: '", text, "' is not above 0"));
    out.push_back(*share);
    sum += *share;
  }
  if (out.size() != models || !std::isfinite(sum))
    return InvalidArgument(Cat("--shares takes ", models,
                               " shares, one for the first model and each of --also, as 3,1"));
  for (double& share : out) share /= sum;
  return out;
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
  for (const MixedModel& m : variants.mix) batch = std::min(batch, m.batch);
  if (batch <= 0) return InvalidArgument("a batch of 0 has no samples to answer");
  INFER_ASSIGN(const auto shares, options.Shares());
  const bool any_shares_runs =
      std::any_of(variants.sources.begin(), variants.sources.end(),
                  [](const engine::ModelSource& source) { return source.axes.proved; });
  for (const engine::ModelSource& source : variants.sources)
    if (options.max_batch > 1 && !source.axes.proved && (variants.mix.empty() || !any_shares_runs))
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
  if (!options.trace_requests.empty()) m->log_ = std::make_shared<engine::RequestLog>();
  m->on_stop_.emplace(stop, [served = m.get()] { served->cancel_.request_stop(); });
  INFER_ASSIGN(m->engine_,
               engine::Engine::Make({.threads = instances,
                                     .placement = *engine::PlacementOf(options.placement),
                                     .clock = m->clock_,
                                     .log = m->log_}));
  INFER_TRY(m->Load("warm-up"));
  return m;
}

ServedModel::~ServedModel() { on_stop_.reset(); }

std::string ServedModel::ModelName(const std::string& name, size_t variant) const {
  return variants_.names.size() > 1 || variants_.route ? Cat(name, "/", variants_.names[variant])
                                                       : name;
}

engine::BatchRules ServedModel::Rules(size_t model) const {
  if (!variants_.mix.empty() && !variants_.sources[model].axes.proved) return {};
  return {.max_rows = options_.max_batch,
          .max_delay_ns = static_cast<int64_t>(std::min(options_.batch_delay_ms * kNsPerMs, 9e18)),
          .adapts = options_.adapt_batch};
}

int64_t ServedModel::MemoryBytes() const {
  constexpr double kMib = 1024.0 * 1024;
  if (options_.model_memory_mib <= 0) return engine::kNever;
  return static_cast<int64_t>(std::min(options_.model_memory_mib * kMib, 9e18));
}

Status ServedModel::Load(const std::string& name) {
  for (size_t i = 0; i < variants_.sources.size(); ++i)
    INFER_TRY(
        engine_->Load(ModelName(name, i), variants_.sources[i],
                      {.instances = instances_,
                       .memory_bytes = MemoryBytes(),
                       // An open loop queues without a limit.
                       .queue = {.max_requests = int64_t{1} << 40, .max_bytes = int64_t{1} << 50},
                       .batch = Rules(i),
                       .buckets = buckets_,
                       .warm_inputs = InputsOf(i)}));
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
  if (log_) log_->Clear();
  measuring_ = true;
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

size_t ServedModel::DrawModel() {
  if (variants_.mix.empty()) return 0;
  double at = random_.Uniform();
  for (size_t i = 0; i + 1 < variants_.mix.size(); ++i) {
    if (at < variants_.mix[i].share) return i;
    at -= variants_.mix[i].share;
  }
  return variants_.mix.size() - 1;
}

const std::vector<Datum>& ServedModel::InputsOf(size_t model) const {
  return variants_.mix.empty() ? inputs_ : variants_.mix[model].inputs;
}

int64_t ServedModel::BatchOf(size_t model) const {
  return variants_.mix.empty() ? batch_ : variants_.mix[model].batch;
}

engine::Request ServedModel::NextRequest(int64_t query, size_t model) {
  engine::Request r{.model = variants_.mix.empty() ? name_ : ModelName(name_, model),
                    .inputs = InputsOf(model),
                    .priority = Draw(),
                    .stop = cancel_.get_token()};
  if (options_.deadline_ms > 0)
    r.timeout_ns = static_cast<int64_t>(std::min(options_.deadline_ms * kNsPerMs, 9e18));
  if (options_.keys > 0)
    r.key = Cat(static_cast<int64_t>(random_.Uniform() * static_cast<double>(options_.keys)));
  if (options_.replay && measuring_) {
    const std::vector<Arrival>& all = options_.replay->arrivals;
    const Arrival& came = all[static_cast<size_t>(query) % all.size()];
    if (options_.replay->has_priority) r.priority = came.priority;
    if (options_.replay->has_key) r.key = came.key;
  }
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
  begun.query->model = DrawModel();
  const int64_t batch = BatchOf(begun.query->model);
  begun.query->open = (samples + batch - 1) / batch;
  open_ += begun.query->open;
  for (int64_t i = 0; i < begun.query->open; ++i)
    begun.requests.push_back(NextRequest(id, begun.query->model));
  if (!options_.save_arrivals.empty() && measuring_) Record(begun.requests[0]);
  return begun;
}

void ServedModel::Record(const engine::Request& r) {
  if (recorded_.size() == kMostArrivals) return;
  recorded_.push_back({.at_s = static_cast<double>(clock_->NowNs() - began_ns_) / 1e9,
                       .priority = r.priority,
                       .key = r.key});
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
  last_end_ns_ = std::max(last_end_ns_, static_cast<int64_t>(finished_ms * kNsPerMs));
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

}  // namespace infer::bench
