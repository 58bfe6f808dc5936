#pragma once
/// Which variant of a model answers a request: values in, a name out. No threads, no clock, no
/// engine; routes (runtime/engine/routes.h) ask, and say afterwards what became of it.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/support/random.h"
#include "lib/support/status.h"
#include "runtime/engine/executor.h"

namespace infer::engine {

/// One of several models that answer the same requests.
struct Variant {
  std::string model = {};   ///< as it is loaded
  double weight = 1;        ///< its share of requests, against the sum of all; >= 0
  bool ready = false;       ///< loaded and warm: no request goes to another
  int64_t outstanding = 0;  ///< requests that have not ended (LeastOfTwo)
  double accuracy = 0;      ///< (MostAccurateInTime)
  int64_t expected_ns = 0;  ///< until it would have answered (MostAccurateInTime)
};

/// Sticky shares: the same key goes to the same variant as long as weights stay, and an experiment
/// with another salt splits the same keys independently. The share of a variant that is not ready
/// goes to the others by their weights; keys of the others stay where they are.
/// nullptr: none is ready, or has a weight.
const Variant* Split(const std::vector<Variant>& variants, std::string_view salt,
                     std::string_view key);

/// The one of two, drawn by weight from those that are ready, that has fewer outstanding requests
/// for its weight (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", IEEE TPDS
/// 12(10), 2001). nullptr: none is ready, or has a weight.
const Variant* LeastOfTwo(const std::vector<Variant>& variants, Random& random);

/// Load of a model, as far as it says when a further request is answered.
struct ModelLoad {
  bool ready = false;           ///< loaded and warm
  bool holds_sequence = false;  ///< that the request is a step of
  int64_t waiting = 0;          ///< requests in its queue
  int64_t running = 0;          ///< requests in runs
  int64_t waiting_rows = 0;     ///< of `waiting`
  int64_t max_rows = 1;         ///< of a run
  int instances = 1, busy = 0;  ///< runs that may go on at once, and that do
  int64_t run_ns = 0;           ///< mean of what runs took; 0: not known
};
/// Nanoseconds until a request of one more row would be answered, if its model's instances were all
/// that runs wait for: runs that are under way count whole. `run_ns` where the load knows none; 0:
/// nothing is known.
int64_t ExpectedNs(const ModelLoad& load, int64_t run_ns);

struct InTime {
  const Variant* variant = nullptr;  ///< nullptr: none is ready
  bool in_time = false;
};
/// Of those that are ready the most accurate with margin * expected_ns <= timeout_ns, the faster of
/// equals; else the one that is expected first.
InTime MostAccurateInTime(const std::vector<Variant>& variants, double margin, int64_t timeout_ns);

struct CanaryRules {
  std::vector<double> steps = {0.01, 0.05, 0.25, 0.5};  ///< shares, rising, each in (0, 1)
  int64_t least_samples = 100;                          ///< of the canary, before a step is judged
  double most_error_rate = 0.01;                        ///< above the stable variant's
  double most_slowdown = 1.2;            ///< of the canary's p99 against the stable variant's
  int failures_to_roll_back = 1;         ///< judgements in a row
  int64_t interval_ns = 10'000'000'000;  ///< between judgements
};
Status Check(const CanaryRules& rules);

/// What was seen of a variant since the last judgement.
struct Seen {
  int64_t requests = 0, errors = 0;
  double p99_ms = 0;
  bool broken = false;  ///< its breaker opened
};

/// A canary on its way: kept by the caller between judgements.
struct Canary {
  enum class Phase : uint8_t { kRunning, kPromoted, kRolledBack };
  Phase phase = Phase::kRunning;
  size_t step = 0;   ///< of the rules
  int failures = 0;  ///< judgements in a row that found it worse
  std::string why;   ///< of the last judgement
  /// Of requests to the canary.
  double share(const CanaryRules& rules) const;
};

/// Once in an interval. Too few samples leave everything as it is, unless the canary is broken.
Canary Judge(const CanaryRules& rules, Canary now, const Seen& stable, const Seen& canary);

}  // namespace infer::engine
