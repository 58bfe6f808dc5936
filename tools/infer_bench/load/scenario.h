#pragma once
/// MLPerf's scenarios by the rules of LoadGen (github.com/mlcommons/inference, loadgen/results.cc
/// and early_stopping.cc; counts and durations of the inference rules): what a run has to be, and
/// whether it was.
#include <optional>
#include <string>
#include <vector>

#include "tools/infer_bench/load/drive.h"

namespace infer::bench {

enum class Scenario { kSingleStream, kMultiStream, kServer, kOffline };
std::vector<std::string> ScenarioNames();  ///< "single-stream", ...; in the order of Scenario
std::string_view Name(Scenario s);

struct ScenarioRules {
  Scenario scenario = Scenario::kSingleStream;
  int64_t samples_per_query = 1;  ///< offline: the least, all in one query
  double quantile = 0.9;          ///< of the latency; offline has none
  int64_t min_queries = 1;
  double min_duration_s = 600;
  double target_latency_ms = 0;  ///< server
};
/// As official: 600 s; 64 queries (single-stream), 662 (multi-stream) and what early stopping wants
/// (server), 24,576 samples (offline).
ScenarioRules OfficialRules(Scenario s);

/// Where `used` asks for less than the official rules: "min duration 10 s; the rules ask for 600
/// s".
std::vector<std::string> Deviations(const ScenarioRules& used);

/// The load that these rules describe. Offline's query is of the larger of the least count and what
/// `capacity_per_s` samples fill 1.1 times the duration with, as LoadGen does.
LoadOptions LoadOf(const ScenarioRules& rules, double capacity_per_s, LoadOptions base);

struct ScenarioVerdict {
  std::string metric;           ///< "p90 latency, early-stopping estimate, ms", ...
  std::optional<double> value;  ///< none where the count cannot bear it
  bool min_duration_met = false;
  bool min_queries_met = false;
  bool early_stopping_met = false;   ///< offline: no such rule, true
  bool target_met = false;           ///< server: the latency; others: no such rule, true
  int64_t over_target = 0;           ///< server: queries beyond the target
  std::vector<std::string> reasons;  ///< why it is INVALID
  bool valid() const { return reasons.empty(); }
};
ScenarioVerdict Judge(const ScenarioRules& rules, const LoadOptions& load, const LoadResult& r);

}  // namespace infer::bench
