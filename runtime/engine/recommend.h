#pragma once
/// Settings of a model behind the engine that its own figures speak for: values in, values out. No
/// threads, no clock.
///
/// Every recommendation names one setting and the figures it rests on. Nothing is recommended from
/// few requests, no setting twice, and of those that add capacity only the first that applies, so
/// that one change is tried at a time. A gain is told only where it was measured or predicted.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/engine/predicted.h"

namespace infer::engine {

enum class Setting : uint8_t {
  kInstances,    ///< ModelOptions::instances
  kMaxRows,      ///< BatchRules::max_rows
  kMaxDelay,     ///< BatchRules::max_delay_ns
  kAdapts,       ///< BatchRules::adapts
  kMaxRequests,  ///< QueueLimits::max_requests
  kBuckets,      ///< ModelOptions::buckets
  kMemory,       ///< EngineOptions::memory_bytes
  kVariant,      ///< which variant answers: RouteVariant::weight, or another file
  kThreads,      ///< CompileOptions::threads, with as many instances as have cores then
  kPrecision,    ///< that the model is converted to before it is compiled
};
inline constexpr size_t kSettings = 10;
std::string_view Name(Setting s);

/// What one model did over some time.
struct Observed {
  ModelStats stats = {};  ///< of that time alone
  double seconds = 0;
  int instances = 1;
  int most_instances = 1;  ///< that the processors have room for: cores over threads of a run
  BatchRules batch = {};
  QueueLimits queue = {};
  bool batchable = false;  ///< its batch axes are proved
  bool has_buckets = false;
  int64_t timeout_ns = kNever;    ///< that requests usually have
  int64_t memory_bytes = kNever;  ///< of the engine, or of the model, whichever binds
  /// Ways to run it, the present one first (ChangeByPrediction); empty: nothing is predicted.
  std::vector<Predicted> predicted = {};
};

/// A figure of Observed or RouteStats, seen or predicted as its name says: a count, a share of 1,
/// or milliseconds.
using Evidence = std::pair<std::string, double>;

/// From `low` to `high`, as a share of the figure now: throughput grows, latency falls.
struct Gain {
  enum class Of : uint8_t { kThroughput, kLatency } of = Of::kThroughput;
  double low = 0, high = 0;
};
std::string_view Name(Gain::Of of);

struct Recommendation {
  Setting setting = Setting::kInstances;
  std::string from, to;  ///< values; names of variants
  std::string why;       ///< one sentence
  std::vector<Evidence> evidence = {};
  std::optional<Gain> gain = {};  ///< nullopt: only a trial can tell
};

struct Advised {
  std::vector<Recommendation> recommendations = {};
  std::string none = {};  ///< why there is none; "": there are some
};

/// By one model's figures.
Advised Recommend(const Observed& o);

/// Another variant than the one that answers most: faster by its median, and not less right, by
/// labels (RecordOutcome) or the accuracy that the policy states. Only of routes whose shares are
/// weights (split, balance).
std::optional<Recommendation> RecommendVariant(const RouteStats& stats, const RoutePolicy& policy);

}  // namespace infer::engine
