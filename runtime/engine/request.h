#pragma once
/// What a caller hands to the engine, and what comes back.
#include <array>
#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tensor/datum.h"
#include "runtime/engine/executor.h"

namespace infer::engine {

enum class Priority : uint8_t { kHigh, kNormal, kLow };
inline constexpr size_t kPriorities = 3;
std::string_view Name(Priority p);

/// The life of a request: queued, batched, running, and one of five ends.
enum class State : uint8_t {
  kQueued,
  kBatched,  ///< chosen for a run that has not begun
  kRunning,
  kSucceeded,
  kCancelled,  ///< by its stop token, or because the engine shut down
  kTimedOut,
  kRejected,  ///< never queued
  kFailed,
};
inline constexpr bool IsEnd(State s) { return s >= State::kSucceeded; }
inline constexpr size_t kEnds = 5;
inline constexpr size_t EndIndex(State s) {  ///< Pre: IsEnd(s)
  return static_cast<size_t>(s) - static_cast<size_t>(State::kSucceeded);
}
std::string_view Name(State s);

using Metadata = std::map<std::string, std::string>;

/// The request as a step of a sequence of a stateful model (ModelOptions::state).
struct SequenceStep {
  std::string id = {};  ///< "": it is none
  bool begins = false;  ///< no sequence of this id goes on
  bool ends = false;    ///< it is forgotten behind this step
};

struct Request {
  std::string model = {};  ///< or a route (Engine::SetRoute)
  /// In the order of the model's inputs. A tensor shares its buffer with the caller's, nothing is
  /// copied. Memory of the caller's own (Buffer::Borrow) is read until the end of the request is
  /// told, not behind it.
  std::vector<Datum> inputs = {};
  /// From Submit to the end, in the queue as well as in the run; <= 0: too late already.
  int64_t timeout_ns = kNever;
  Priority priority = Priority::kNormal;
  Metadata metadata = {};  ///< comes back with the outcome; the engine does not read it
  /// The user or session that asks, for routes that keep a key with one variant; others do not read
  /// it.
  std::string key = {};
  /// Steps run one after the other, as they were submitted, in the version, and behind a route in
  /// the variant, that took the first. One that does not succeed leaves the state as it was; those
  /// that already wait behind it are cancelled.
  SequenceStep sequence = {};
  /// On which device it must run; rejected where `model` is no route that chooses by device.
  std::string device = {};
  /// In the queue a request ends at once. A run that serves it alone ends between two steps; in a
  /// batch the others go on without it.
  std::stop_token stop = {};
};

/// Nanoseconds; 0 for a phase that was not reached.
struct Phases {
  int64_t queue_ns = 0;    ///< from Submit until it was chosen for a run
  int64_t batch_ns = 0;    ///< until the run began: inputs stacked, a thread and lanes waited for
  int64_t compute_ns = 0;  ///< the run; with a run of its own behind one that failed, that one
  int64_t total_ns = 0;    ///< from Submit to the end
};

/// The queue of a model at one moment.
struct QueueState {
  int64_t requests = 0, bytes = 0;          ///< that wait
  int64_t max_requests = 0, max_bytes = 0;  ///< its limits
  int64_t running = 0;                      ///< requests in runs
};

/// Which variant of a route a request went to; says so also when the route has long been changed.
struct Ticket {
  std::string route;       ///< "": no route was asked
  int64_t generation = 0;  ///< of the route: one more each time that it is set
  std::string model;
};

struct Outcome {
  State end = State::kFailed;
  /// Ok for kSucceeded, else why not: kCancelled for both kCancelled and kTimedOut.
  Status status;
  std::vector<Datum> outputs;  ///< in graph order; memory of their own
  Phases phases;
  int64_t version = 0;     ///< of the model, from 1
  int64_t batch_rows = 0;  ///< of the run that gave the outputs, this request's included
  int64_t padded_to =
      0;             ///< the extent that its inputs were given (ModelOptions::buckets); 0: none
  QueueState queue;  ///< where a full queue rejected
  Metadata metadata;
  Ticket ticket;          ///< for Engine::RecordOutcome; with a cascade, who answered
  double confidence = 0;  ///< of a cascade's answer; 0: not looked at, or not readable
};

}  // namespace infer::engine
