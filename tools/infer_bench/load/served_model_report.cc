/// The report of a model behind the engine: counts, phases, advice.
#include <algorithm>
#include <numeric>

#include "lib/support/file.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/infer_bench/load/fault_text.h"
#include "tools/infer_bench/load/latencies.h"
#include "tools/infer_bench/load/matrix_report.h"
#include "tools/infer_bench/load/request_trace.h"
#include "tools/infer_bench/load/route_report.h"
#include "tools/infer_bench/load/served_model.h"

namespace infer::bench {
namespace {

using engine::Histogram;
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
  all.bytes += one.bytes;
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
                     .queue = {.max_requests = engine::kNever},
                     .has_buckets = !buckets_.extents.empty(),
                     .memory_bytes = MemoryBytes(),
                     .predicted = predicted_};
  if (options_.deadline_ms > 0)
    o.timeout_ns = static_cast<int64_t>(options_.deadline_ms * kNsPerMs);
  std::vector<AdvisedModel> models;
  for (engine::ModelStats& s : engine_->Stats())
    for (size_t i = 0; i < variants_.names.size(); ++i) {
      if (s.model != ModelName(name_, i)) continue;
      o.stats = std::move(s);
      o.batch = Rules(i);
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

ArrivalTrace ServedModel::Recorded() const {
  const std::lock_guard lock(mutex_);
  ArrivalTrace trace{.arrivals = recorded_, .has_priority = true};
  for (const Arrival& a : recorded_) trace.has_key |= !a.key.empty();
  return trace;
}

Status ServedModel::WriteFiles(Context& context) const {
  if (const std::string& to = options_.save_arrivals; !to.empty()) {
    const ArrivalTrace trace = Recorded();
    if (trace.arrivals.size() == kMostArrivals)
      context.Warn(Cat(to, " has the first ", kMostArrivals, " queries"));
    INFER_TRY(WriteFileAtomically(to, ArrivalsText(trace)));
  }
  if (!log_) return {};
  if (log_->dropped() > 0)
    context.Warn(Cat(options_.trace_requests, " has the last ", engine::RequestLog::kMost, " of ",
                     log_->dropped() + static_cast<int64_t>(engine::RequestLog::kMost),
                     " requests: a shorter --duration has all"));
  return WriteFileAtomically(options_.trace_requests,
                             RequestTrace(variants_.names[0], log_->Spans(), began_ns_));
}

std::vector<engine::MatrixCell> ServedModel::Matrix() const {
  std::vector<engine::ModelStats> models;
  for (engine::ModelStats& s : engine_->Stats())
    for (size_t i = 0; i < variants_.names.size(); ++i)
      if (s.model == ModelName(name_, i)) {
        models.push_back(std::move(s));
        models.back().model = variants_.names[i];
        break;
      }
  return engine::DeviceMatrix(models);
}

double ServedModel::AnsweredPerS(const engine::ModelStats& s) const {
  const double seconds = static_cast<double>(last_end_ns_ - began_ns_) / 1e9;
  return seconds > 0 ? static_cast<double>(s.ends[engine::EndIndex(State::kSucceeded)]) / seconds
                     : 0;
}

/// Of models beside each other, in their order; empty: there is one, or a route.
std::vector<engine::ModelStats> ServedModel::StatsOfMix() const {
  std::vector<engine::ModelStats> of_mix(variants_.mix.size());
  if (of_mix.empty()) return of_mix;
  for (engine::ModelStats& s : engine_->Stats())
    for (size_t i = 0; i < of_mix.size(); ++i)
      if (s.model == ModelName(name_, i)) {
        of_mix[i] = std::move(s);
        break;
      }
  return of_mix;
}

Json ServedModel::MixJson() const {
  Json models = Json::array();
  const std::vector<engine::ModelStats> all = StatsOfMix();
  for (size_t i = 0; i < all.size(); ++i) {
    const engine::ModelStats* s = &all[i];
    Json phases = Json::object(), rows = Json::array();
    for (size_t p = 0; p < engine::kPhases; ++p)
      phases[std::string(Name(static_cast<engine::Phase>(p)))] =
          TimesJson(Succeeded(s->times.total, p));
    for (const auto& [n, runs] : s->batch_rows) rows.push_back({{"rows", n}, {"runs", runs}});
    models.push_back({{"path", variants_.names[i]},
                      {"share", variants_.mix[i].share},
                      {"batch", variants_.mix[i].batch},
                      {"submitted", s->submitted},
                      {"answered_per_s", AnsweredPerS(*s)},
                      {"ends", EndsJson(s->ends)},
                      {"phases_ms", std::move(phases)},
                      {"runs", s->runs},
                      {"fired", CountsJson<engine::Fired>(s->fired)},
                      {"single", CountsJson<engine::Single>(s->single)},
                      {"batch_rows", std::move(rows)},
                      {"unbatchable", s->unbatchable.empty() ? Json() : Json(s->unbatchable)}});
  }
  return models;
}

std::string ServedModel::MixTable() const {
  if (variants_.mix.empty()) return "";
  std::vector<std::vector<std::string>> rows = {TimesHeads("total ms of a model")};
  std::string more;
  const std::vector<engine::ModelStats> all = StatsOfMix();
  for (size_t i = 0; i < all.size(); ++i) {
    const engine::ModelStats& s = all[i];
    rows.push_back(TimesRow(variants_.names[i], Succeeded(s.times.total, engine::kPhases - 1)));
    more += Cat(variants_.names[i], ": ", s.submitted, " requests (share ",
                Rounded(100 * variants_.mix[i].share, 3), " %), answered ",
                Rounded(AnsweredPerS(s), 4), " per s in ", s.runs, " runs");
    if (options_.max_batch > 1 && !s.unbatchable.empty())
      more += Cat("; not batched: ", s.unbatchable);
    more += "\n";
  }
  return TextTable(rows) + more;
}

Json ServedModel::StatsJson() const {
  const engine::ModelStats s = Stats();
  Json j = {{"instances", instances_},
            {"max_batch", options_.max_batch},
            {"batch_delay_ms", options_.batch_delay_ms},
            {"adapt_batch", options_.adapt_batch},
            {"memory_limit_bytes", options_.model_memory_mib > 0 ? Json(MemoryBytes()) : Json()},
            {"memory_bytes", s.bytes},
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
  j["models"] = MixJson();
  j["matrix"] = MatrixJson(Matrix());
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
    if (by_priority_[p].total_ns.count() > 0 &&
        (by_priority_[p].share < 1 || (options_.replay && options_.replay->has_priority)))
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
               variants_.names.size() > 1 ? Cat(" of ", variants_.names[a.variant]) : "", ": ",
               Name(a.anomaly.figure), " ", Rounded(Shown(a.anomaly, a.anomaly.value), 3),
               ", usual ", Rounded(Shown(a.anomaly, a.anomaly.usual), 3),
               a.anomaly.figure == engine::Figure::kErrors ? " of requests" : " ms", " (",
               Name(a.anomaly.by), ")\n");
  if (faults_) out += Cat("ends: ", EndsText(s.ends), "\n", FaultsText(faults_->Counts()));
  if (const auto route = StatsOfRoute()) out += RouteTable(*route, variants_.names);
  return out + MixTable() + MatrixTable(Matrix()) + RecommendationsText(Advise());
}

}  // namespace infer::bench
