#pragma once
/// Which variant of a model answers a request: values in, a name out. No threads, no clock, no
/// engine; whoever submits asks, and says afterwards what became of it.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/support/random.h"
#include "lib/support/status.h"

namespace infer::engine {

/// One of several models that answer the same requests.
struct Variant {
  std::string model;        ///< as it is loaded
  double weight = 1;        ///< its share of requests, against the sum of all; >= 0
  bool ready = false;       ///< loaded and warm: no request goes to another
  int64_t outstanding = 0;  ///< requests that have not ended (LeastOfTwo)
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

struct CanaryRules {
  std::vector<double> steps = {0.01, 0.05, 0.25, 0.5};  ///< shares, rising, each in (0, 1)
  int64_t least_samples = 100;                          ///< of the canary, before a step is judged
  double most_error_rate = 0.01;                        ///< above the stable variant's
  double most_slowdown = 1.2;     ///< of the canary's p99 against the stable variant's
  int failures_to_roll_back = 1;  ///< judgements in a row
};
Status Check(const CanaryRules& rules);

/// What was seen of a variant since the last judgement.
struct Seen {
  int64_t requests = 0, errors = 0;
  double p99_ms = 0;
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

/// Once in an interval of the caller's. Too few samples leave everything as it is.
Canary Judge(const CanaryRules& rules, Canary now, const Seen& stable, const Seen& canary);

}  // namespace infer::engine
