#pragma once
/// What a load is put on. The engine owns the clock, so that a simulated one answers in no time; a
/// server that completes requests out of order fits, too.
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lib/support/status.h"

namespace infer::bench {

/// A query that was answered.
struct Done {
  int64_t id = 0;
  double started_ms = 0;   ///< when the engine began to work on it
  double finished_ms = 0;  ///< by the engine's clock, as all times
  Status status;
};

/// Used by one thread.
class Engine {
 public:
  virtual ~Engine() = default;
  /// How many queries it works on at once; further ones queue.
  virtual int lanes() const = 0;
  virtual double NowMs() = 0;
  /// Hands over a query and returns at once.
  virtual void Submit(int64_t id, int64_t samples) = 0;
  /// What was answered since the last call; waits for an answer, at most until `until_ms`.
  virtual std::vector<Done> Wait(double until_ms) = 0;
  /// Of a closed loop: the thread that answers a query hands over the next itself, of so many
  /// samples, as long as `next` gives it an id, and Wait() is woken for no such answer. So the
  /// thread that drives the load takes no core from the engine. False: the engine does not do it.
  /// A query that failed is not followed. An empty `next` ends it.
  using NextFn = std::function<std::optional<int64_t>()>;
  virtual bool FollowAnswers(const NextFn& /*next*/, int64_t /*samples*/) { return false; }
  /// Gives up what was submitted and not answered; nothing of it is heard of again.
  virtual void Abandon() = 0;
};

}  // namespace infer::bench
