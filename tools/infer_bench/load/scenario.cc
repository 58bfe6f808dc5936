#include "tools/infer_bench/load/scenario.h"

#include <algorithm>
#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/percentiles.h"

namespace infer::bench {
namespace {

constexpr int64_t kOfflineSamples = 24'576;
constexpr int64_t kStreams = 8;
/// LoadGen's slack, so that the one query of offline lasts as long as it must.
constexpr double kOfflineSlack = 1.1;
/// The one query of offline may take so many times what the capacity promises.
constexpr double kOfflinePatience = 2;

/// The least n of which `over` beyond the quantile are few enough.
int64_t LeastCountWith(int64_t over, double q, int64_t from) {
  int64_t high = std::max<int64_t>(from, 2);
  while (MostBeyond(high, q) < over) high *= 2;
  int64_t low = 1;
  while (low + 1 < high) {
    const int64_t middle = low + (high - low) / 2;
    (MostBeyond(middle, q) < over ? low : high) = middle;
  }
  return high;
}

void JudgeServer(const ScenarioRules& rules, const LoadResult& r, ScenarioVerdict& v) {
  const int64_t n = r.latency.count();
  v.metric = "answers per second";
  v.value = r.throughput_per_s();
  v.over_target = r.latency.CountAbove(rules.target_latency_ms);
  // The share of queries, not the estimate of early stopping: LoadGen asks for both.
  v.target_met = n > 0 && r.latency.Quantile(rules.quantile) <= rules.target_latency_ms;
  v.early_stopping_met = n > 0 && MostBeyond(n, rules.quantile) >= v.over_target;
  const std::string name = PercentileName(rules.quantile);
  if (!v.target_met)
    v.reasons.push_back(Cat(name, " latency ", Rounded(r.latency.Quantile(rules.quantile), 4),
                            " ms is above the target of ", Rounded(rules.target_latency_ms, 4),
                            " ms: reduce --rate"));
  else if (!v.early_stopping_met)
    v.reasons.push_back(Cat(v.over_target, " of ", n, " queries beyond the target need ",
                            LeastCountWith(v.over_target, rules.quantile, n),
                            " queries for early stopping"));
}

void JudgeStream(const ScenarioRules& rules, const LoadResult& r, ScenarioVerdict& v) {
  const Percentile p = r.latency.AtQuantile(rules.quantile);
  v.metric = Cat(p.name, " latency of a query, early-stopping estimate, ms");
  v.value = p.upper;
  v.target_met = true;
  v.early_stopping_met = p.upper.has_value();
  if (!v.early_stopping_met)
    v.reasons.push_back(Cat(r.latency.count(), " queries; early stopping at ", p.name, " needs ",
                            LeastCount(rules.quantile)));
}

}  // namespace

std::vector<std::string> ScenarioNames() {
  return {"single-stream", "multi-stream", "server", "offline"};
}

std::string_view Name(Scenario s) {
  switch (s) {
    case Scenario::kSingleStream: return "single-stream";
    case Scenario::kMultiStream: return "multi-stream";
    case Scenario::kServer: return "server";
    case Scenario::kOffline: return "offline";
  }
  return "";
}

ScenarioRules OfficialRules(Scenario s) {
  ScenarioRules r{.scenario = s};
  if (s == Scenario::kSingleStream) r.min_queries = LeastCount(r.quantile);
  if (s == Scenario::kMultiStream || s == Scenario::kServer) r.quantile = 0.99;
  if (s == Scenario::kMultiStream) {
    r.samples_per_query = kStreams;
    r.min_queries = LeastCount(r.quantile);
  }
  if (s == Scenario::kOffline) r.samples_per_query = kOfflineSamples;
  return r;
}

std::vector<std::string> Deviations(const ScenarioRules& used) {
  const ScenarioRules rules = OfficialRules(used.scenario);
  std::vector<std::string> out;
  const auto less = [&](std::string_view what, double have, double want, std::string_view unit) {
    if (have < want)
      out.push_back(
          Cat(what, " ", Rounded(have, 6), unit, "; the rules ask for ", Rounded(want, 6), unit));
  };
  less("min duration", used.min_duration_s, rules.min_duration_s, " s");
  less("min queries", static_cast<double>(used.min_queries), static_cast<double>(rules.min_queries),
       "");
  less("samples of a query", static_cast<double>(used.samples_per_query),
       static_cast<double>(rules.samples_per_query), "");
  less("percentile", used.quantile * 100, rules.quantile * 100, "");
  return out;
}

LoadOptions LoadOf(const ScenarioRules& rules, double capacity_per_s, LoadOptions base) {
  base.arrivals = rules.scenario == Scenario::kServer ? Arrivals::kPoisson : Arrivals::kClosed;
  base.concurrency = 1;
  base.samples_per_query = rules.samples_per_query;
  base.duration_s = rules.min_duration_s;
  base.min_queries = rules.min_queries;
  base.max_queries = 0;
  // Every query has to be answered.
  base.drain_s = std::max(base.drain_s, base.max_duration_s);
  if (rules.scenario == Scenario::kOffline) {
    const double fill = kOfflineSlack * capacity_per_s * rules.min_duration_s;
    base.samples_per_query = std::max<int64_t>(rules.samples_per_query, std::llround(fill));
    base.max_queries = 1;
    // Nothing comes behind the query, so that all its time counts as draining.
    const double promised_s =
        capacity_per_s > 0 ? static_cast<double>(base.samples_per_query) / capacity_per_s : 0;
    const double least_s = kOfflineSlack * rules.min_duration_s;
    base.drain_s = std::max(base.drain_s, kOfflinePatience * std::max(least_s, promised_s));
  }
  return base;
}

ScenarioVerdict Judge(const ScenarioRules& rules, const LoadOptions& load, const LoadResult& r) {
  ScenarioVerdict v;
  const bool offline = rules.scenario == Scenario::kOffline;
  const double seconds = offline ? r.latency.max() / 1e3 : r.seconds;
  v.min_duration_met = seconds >= rules.min_duration_s;
  v.min_queries_met = r.answered >= rules.min_queries;
  if (r.interrupted) v.reasons.push_back("interrupted");
  if (!v.min_duration_met)
    v.reasons.push_back(Cat("lasted ", Rounded(seconds, 4), " s of at least ",
                            Rounded(rules.min_duration_s, 4), " s"));
  if (!v.min_queries_met)
    v.reasons.push_back(Cat(r.answered, " queries of at least ", rules.min_queries));
  if (r.unanswered > 0) v.reasons.push_back(Cat(r.unanswered, " queries without an answer"));
  if (offline) {
    v.metric = "samples per second";
    if (r.answered > 0 && seconds > 0)
      v.value = static_cast<double>(load.samples_per_query) / seconds;
    v.early_stopping_met = v.target_met = true;
  } else if (rules.scenario == Scenario::kServer) {
    JudgeServer(rules, r, v);
  } else {
    JudgeStream(rules, r, v);
  }
  return v;
}

}  // namespace infer::bench
