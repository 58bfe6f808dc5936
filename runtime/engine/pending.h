#pragma once
/// A request inside the engine.
#include <atomic>
#include <list>
#include <memory>
#include <optional>

#include "runtime/engine/batch_rules.h"
#include "runtime/engine/request.h"

namespace infer::engine {

struct Batch;
struct Bucket;
class Telemetry;
class Version;
using Callback = std::function<void(Outcome)>;

/// What of the inputs must agree for requests to share a run: their types and all extents, padded
/// ones as they are then, but that of the batch axis. Empty where nothing is batched.
using ShapeKey = std::vector<int64_t>;

/// All but the state is guarded by the engine's mutex; what is set before the request is queued may
/// be read without it.
class Pending : public std::enable_shared_from_this<Pending> {
 public:
  Request request;
  Callback callback;
  int64_t id = 0;
  int64_t bytes = 0, rows = 1;
  int64_t requests_before = 0;        // of its version, when it came
  int64_t length = 0, padded_to = 0;  // along the extent of its buckets; 0: it is not padded
  ShapeKey shape;
  int64_t came_ns = 0, deadline_ns = kNever;
  int64_t late_ns = kNever;  // behind it a run would hardly end in time (RequestQueue)
  std::shared_ptr<Version> version;

  Bucket* bucket = nullptr;  // while it is queued
  bool late = false;         // among those of `bucket` that are behind late_ns
  std::list<std::shared_ptr<Pending>>::iterator place;
  Batch* batch = nullptr;       // from being chosen until the batch is over
  bool waits_for_step = false;  // in a sequence, behind another step
  bool shadow = false;          // a copy, whose answer nobody waits for
  bool handed = false;          // to whoever tells its end
  Outcome outcome;
  std::shared_ptr<Telemetry> times;  // of its model, which may be forgotten

  /// One that is late is overtaken by all of its priority that come before its deadline.
  Order order(int64_t ageing_ns) const {
    return {After(late ? deadline_ns : came_ns, static_cast<int64_t>(request.priority) * ageing_ns),
            id};
  }

  State state() const { return state_.load(std::memory_order_acquire); }
  /// Whether the request was in state `from` and is in `to` now.
  bool Advance(State from, State to) {
    return state_.compare_exchange_strong(from, to, std::memory_order_acq_rel);
  }
  /// The state in which this call ended it; nullopt where it had ended. It ends once in the life of
  /// a request.
  std::optional<State> End(State how) {
    State now = state();
    while (!IsEnd(now))
      if (state_.compare_exchange_weak(now, how, std::memory_order_acq_rel)) return now;
    return std::nullopt;
  }

  /// Last: its destructor waits for a call of the function in another thread.
  std::optional<std::stop_callback<Task>> on_stop;

 private:
  std::atomic<State> state_{State::kQueued};
};
using PendingPtr = std::shared_ptr<Pending>;

}  // namespace infer::engine
