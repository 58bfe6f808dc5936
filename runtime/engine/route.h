#pragma once
/// A route is one name for several models that answer the same requests, and the rule by which one
/// of them is chosen (docs/engine.md). Values: what a route is to do, and what it did.
#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/engine/breaker.h"
#include "runtime/engine/experiment.h"
#include "runtime/engine/histogram.h"
#include "runtime/engine/request.h"
#include "runtime/engine/router.h"

namespace infer::engine {

/// One of the models. Fields that the route's mode does not use must not be set.
struct RouteVariant {
  std::string model = {};               ///< as it is loaded
  std::optional<double> weight = {};    ///< split, affinity by key, balance; 1 where it is not set
  std::optional<double> accuracy = {};  ///< slo: needed
  std::optional<int64_t> run_ns = {};   ///< slo: of one run, until the engine has seen one
  std::optional<std::string> device = {};  ///< affinity by device: needed
};

/// A/B: each key stays with one variant. A request without a key is drawn for itself.
struct SplitRoute {
  std::string salt = {};  ///< routes of other salts split the same keys independently
  std::optional<ExperimentRules> experiment = {};
};
/// Two variants, the stable one and the canary, which is given more and more of the requests.
struct CanaryRoute {
  std::string salt = {};
  CanaryRules rules = {};
};
/// kKey: requests of one key meet one variant, and its caches; a key is needed. kDevice: requests
/// say on which device they want to run (Request::device), where the less loaded of two answers.
struct AffinityRoute {
  enum class By : uint8_t { kKey, kDevice };
  By by = By::kKey;
  std::string salt = {};  ///< kKey
  uint64_t seed = 0;      ///< kDevice
};
/// The less loaded of two that are drawn.
struct BalanceRoute {
  uint64_t seed = 0;
};
/// The first variant answers. Copies of requests go to the others, whose answers are compared and
/// given to nobody.
struct ShadowRoute {
  double share = 1;          ///< of requests that are copied
  int64_t most_waiting = 8;  ///< copies for one variant that have not ended; others are dropped
  int64_t timeout_ns = 10'000'000'000;  ///< of a copy
  uint64_t seed = 0;
};
/// The first variant answers where it is sure of its classes, else the next one, and so on; the
/// last always does.
struct CascadeRoute {
  double min_confidence = 0.9;  ///< of the surest class of every row (Confidence, answers.h)
  bool logits = false;          ///< the output is no probabilities: Softmax makes them
  size_t output = 0;            ///< which output has the classes
};
/// The most accurate variant that is expected to answer within the request's timeout.
struct SloRoute {
  double margin = 2;  ///< times the expected time must fit into the timeout
};
using RouteMode = std::variant<SplitRoute, CanaryRoute, AffinityRoute, BalanceRoute, ShadowRoute,
                               CascadeRoute, SloRoute>;
std::string_view NameOf(const RouteMode& mode);  ///< "split", "canary", ...

struct RoutePolicy {
  RouteMode mode = {};
  std::vector<RouteVariant> variants = {};
  BreakerRules breaker = {};  ///< one for each variant
};
/// InvalidArgument, one line: a setting that makes no sense or would have no effect.
Status Check(const RoutePolicy& policy);

struct VariantStats {
  std::string model;
  bool ready = false;  ///< loaded, warm, and its breaker closed
  Breaker::State breaker = Breaker::State::kClosed;
  int64_t breaker_opened = 0;  ///< how often
  double share = 0;  ///< of requests, where the mode has shares; of copies, where it is a shadow
  int64_t sent = 0;  ///< requests; with those at work, the sum of ends
  std::array<int64_t, kEnds> ends = {};  ///< by EndIndex
  Histogram total_ns = {};               ///< of those that succeeded
  Trials labels = {};                    ///< told by RecordOutcome
  int64_t unsure = 0;                    ///< cascade: answers that were not sure enough
  int64_t unreadable = 0;                ///< cascade: answers that held no probabilities
};

struct ShadowStats {
  int64_t dropped = 0;   ///< copies that were not sent: too many waited, or the shadow not ready
  int64_t compared = 0;  ///< pairs of answers
  int64_t incomparable = 0;          ///< pairs of other types or extents
  int64_t rows = 0, other_top1 = 0;  ///< of compared ones
  double worst = 0;                  ///< largest difference (Difference, answers.h)
};

struct RouteStats {
  std::string route;
  std::string_view mode;
  int64_t submitted = 0;
  int64_t rejected = 0;  ///< by the route: no variant could be chosen
  std::vector<VariantStats> variants = {};
  std::optional<Canary> canary = {};
  std::optional<ExperimentVerdict> experiment = {};
  std::vector<Trials> trials = {};  ///< of the experiment, by variant
  std::optional<ShadowStats> shadow = {};
  int64_t gave_up = 0;  ///< cascade: unsure answers that were given, since no further variant could
  int64_t late = 0;     ///< slo: no variant was expected to answer in time; the fastest was taken
};

}  // namespace infer::engine
