#pragma once
/// Keeps requests from a variant that fails: a value, without a clock.
#include <cstdint>
#include <string_view>

#include "lib/support/status.h"
#include "runtime/engine/executor.h"

namespace infer::engine {

struct BreakerRules {
  int failures = 5;                  ///< in a row: then it opens
  int64_t open_ns = 10'000'000'000;  ///< so long; then one request at a time is a probe
};
Status Check(const BreakerRules& rules);

/// How a request went, as far as the variant is to blame.
enum class Blame : uint8_t {
  kGood,     ///< it succeeded
  kBad,      ///< it failed, or its deadline passed
  kNeither,  ///< it was cancelled, or not taken
};

class Breaker {
 public:
  enum class State : uint8_t { kClosed, kOpen, kProbing };
  State state() const { return state_; }
  int64_t opened() const { return opened_; }  ///< how often
  /// Whether a request may go to the variant.
  bool Lets(const BreakerRules& rules, int64_t now_ns) const;
  /// A request goes. Whether it is the probe. Pre: Lets().
  bool Sent();
  void Ended(const BreakerRules& rules, Blame blame, bool probe, int64_t now_ns);

 private:
  void Open(int64_t now_ns);

  State state_ = State::kClosed;
  int in_a_row_ = 0;
  int64_t open_since_ns_ = 0, opened_ = 0;
};
std::string_view Name(Breaker::State state);

}  // namespace infer::engine
