#pragma once
/// Puts a load on an engine: closed loop (so many queries in flight) or open loop (arrivals at a
/// rate, whatever the engine does). A latency counts from the moment at which the query was due, so
/// that an engine that stalls is charged for all that would have come meanwhile (no coordinated
/// omission).
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/support/random.h"
#include "tools/infer_bench/load/engine.h"
#include "tools/infer_bench/load/latencies.h"

namespace infer::bench {

enum class Arrivals {
  kClosed,    ///< a query as soon as another is answered
  kPoisson,   ///< exponential gaps
  kUniform,   ///< equal gaps
  kReplayed,  ///< open loop of moments that were recorded
};
std::string_view Name(Arrivals a);

struct LoadOptions {
  Arrivals arrivals = Arrivals::kClosed;
  int64_t concurrency = 1;  ///< closed loop: queries in flight
  double rate = 0;          ///< open loop: queries per second
  /// kReplayed: since the start, in order; behind the last and a mean gap they come again.
  std::shared_ptr<const std::vector<double>> moments_ms = {};
  uint64_t seed = 0;
  int64_t samples_per_query = 1;
  double duration_s = 10;       ///< queries come for at least so long ...
  int64_t min_queries = 1;      ///< ... and are at least so many,
  int64_t max_queries = 0;      ///< but no more than this (0: no limit)
  double max_duration_s = 600;  ///< and come for no longer than this; those that were due before
                                ///< are handed over for drain_s more
  double drain_s = 10;          ///< behind them, how long answers are waited for
  int64_t keep = 100'000;       ///< raw samples that are kept
  std::stop_token stop = {};
  /// Sees every answer, with the moment at which the query was due.
  std::function<void(const Done&, double due_ms)> observe = {};
};

struct LoadResult {
  Latencies latency;  ///< from due to answered; those without an answer by their age
  Latencies waiting;  ///< from due until the engine began; of answered ones
  Latencies service;  ///< from there until answered
  Latencies lag;      ///< open loop: from due until handed over, which is the generator's fault
  int64_t issued = 0, answered = 0;
  int64_t answered_in_time = 0;  ///< while queries still came
  int64_t unanswered = 0;
  double oldest_unanswered_ms = 0;
  double seconds = 0;        ///< for which queries came
  double total_seconds = 0;  ///< until the last answer, or until it was given up
  double queue_mean = 0;     ///< queries that waited, mean over total_seconds (Little's law)
  int64_t queue_max = 0;     ///< as queries came
  int64_t backlog = 0;       ///< in flight when the last had come
  std::string ended;         ///< "duration", "max queries", "max duration" or "stopped"
  bool interrupted = false;
  double offered_per_s() const;
  double throughput_per_s() const;  ///< of answers while queries came
};

/// A failing query ends the load with its status.
Result<LoadResult> Drive(Engine& engine, const LoadOptions& options);

}  // namespace infer::bench
