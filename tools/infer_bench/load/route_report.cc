#include "tools/infer_bench/load/route_report.h"

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/percentiles.h"
#include "tools/infer_bench/load/latencies.h"

namespace infer::bench {
namespace {

using engine::Canary;
using engine::ExperimentVerdict;
using engine::Histogram;
using engine::State;

constexpr std::array<double, 4> kQuantiles = {0.5, 0.9, 0.99, 0.999};

std::string_view PhaseName(Canary::Phase phase) {
  switch (phase) {
    case Canary::Phase::kRunning: return "running";
    case Canary::Phase::kPromoted: return "promoted";
    case Canary::Phase::kRolledBack: return "rolled back";
  }
  return "";
}

Json ExperimentJson(const engine::RouteStats& r, const std::vector<std::string>& names) {
  const ExperimentVerdict& v = *r.experiment;
  Json trials = Json::array();
  for (size_t i = 0; i < r.trials.size(); ++i)
    trials.push_back({{"variant", names[i]},
                      {"count", r.trials[i].count},
                      {"successes", r.trials[i].successes}});
  const bool won = v.kind == ExperimentVerdict::Kind::kWinner;
  return {{"verdict", Name(v.kind)},
          {"winner", won ? Json(names[v.winner]) : Json()},
          {"p_value", v.p_value},
          {"trials", std::move(trials)}};
}

Json ShadowJson(const engine::ShadowStats& s) {
  return {{"dropped", s.dropped},           {"compared", s.compared},
          {"incomparable", s.incomparable}, {"rows", s.rows},
          {"other_top1", s.other_top1},     {"worst_difference", JsonNumber(s.worst)}};
}

/// The verdict of the mode, if it has one.
std::string Verdict(const engine::RouteStats& r, const std::vector<std::string>& names) {
  std::string out;
  if (r.canary)
    out += Cat("canary: ", PhaseName(r.canary->phase), " at step ", r.canary->step,
               r.canary->why.empty() ? "" : Cat("; ", r.canary->why), "\n");
  if (r.experiment) {
    const ExperimentVerdict& v = *r.experiment;
    out += Cat("experiment: ", Name(v.kind),
               v.kind == ExperimentVerdict::Kind::kWinner ? Cat(" ", names[v.winner]) : "",
               ", p = ", Rounded(v.p_value, 3), "\n");
  }
  if (const auto& s = r.shadow)
    out += Cat("shadow: ", s->compared, " answers compared, ", s->dropped, " copies dropped, ",
               s->other_top1, " of ", s->rows, " rows with another first class, worst difference ",
               Rounded(s->worst, 3), "\n");
  if (r.gave_up > 0) out += Cat(r.gave_up, " unsure answers given\n");
  if (r.late > 0) out += Cat(r.late, " requests that no variant was expected to answer in time\n");
  if (r.rejected > 0) out += Cat(r.rejected, " rejected by the route\n");
  return out;
}

}  // namespace

Json TimesJson(const Histogram& ns) {
  Json j = {{"count", ns.count()}};
  for (double q : kQuantiles)
    j[PercentileName(q)] = ns.count() > 0 ? Json(ns.Quantile(q) / kNsPerMs) : Json();
  return j;
}

std::vector<std::string> TimesRow(std::string name, const Histogram& ns) {
  std::vector<std::string> row = {std::move(name), Cat(ns.count())};
  for (double q : kQuantiles) row.push_back(Rounded(ns.Quantile(q) / kNsPerMs, 4));
  return row;
}

std::vector<std::string> TimesHeads(std::string first) {
  std::vector<std::string> heads = {std::move(first), "requests"};
  for (double q : kQuantiles) heads.push_back(PercentileName(q));
  return heads;
}

Json EndsJson(const std::array<int64_t, engine::kEnds>& ends) {
  Json j = Json::object();
  for (State end :
       {State::kSucceeded, State::kCancelled, State::kTimedOut, State::kRejected, State::kFailed})
    j[std::string(Name(end))] = ends[engine::EndIndex(end)];
  return j;
}

Json ToJson(const engine::RouteStats& r, const std::vector<std::string>& names) {
  Json variants = Json::array();
  for (size_t i = 0; i < r.variants.size(); ++i) {
    const engine::VariantStats& v = r.variants[i];
    variants.push_back({{"name", names[i]},
                        {"share", v.share},
                        {"sent", v.sent},
                        {"ends", EndsJson(v.ends)},
                        {"total_ms", TimesJson(v.total_ns)},
                        {"ready", v.ready},
                        {"breaker", Name(v.breaker)},
                        {"breaker_opened", v.breaker_opened},
                        {"unsure", v.unsure},
                        {"unreadable", v.unreadable}});
  }
  Json j = {{"mode", r.mode},       {"submitted", r.submitted}, {"rejected", r.rejected},
            {"gave_up", r.gave_up}, {"late", r.late},           {"variants", std::move(variants)}};
  j["canary"] = r.canary ? Json{{"phase", PhaseName(r.canary->phase)},
                                {"step", r.canary->step},
                                {"why", r.canary->why}}
                         : Json();
  j["experiment"] = r.experiment ? ExperimentJson(r, names) : Json();
  j["shadow"] = r.shadow ? ShadowJson(*r.shadow) : Json();
  return j;
}

std::string RouteTable(const engine::RouteStats& r, const std::vector<std::string>& names) {
  std::vector<std::vector<std::string>> rows = {TimesHeads(Cat("route ", r.mode, ", ms"))};
  rows[0].emplace_back("share");
  for (size_t i = 0; i < r.variants.size(); ++i) {
    const engine::VariantStats& v = r.variants[i];
    rows.push_back(TimesRow(names[i], v.total_ns));
    rows.back()[1] = Cat(v.sent);
    rows.back().push_back(v.share > 0 ? Cat(Rounded(100 * v.share, 3), " %") : "-");
  }
  return TextTable(rows) + Verdict(r, names);
}

}  // namespace infer::bench
