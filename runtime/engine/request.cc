#include "runtime/engine/request.h"

namespace infer::engine {

std::string_view Name(Priority p) {
  switch (p) {
    case Priority::kHigh: return "high";
    case Priority::kNormal: return "normal";
    case Priority::kLow: return "low";
  }
  return "";
}

std::string_view Name(State s) {
  switch (s) {
    case State::kQueued: return "queued";
    case State::kBatched: return "batched";
    case State::kRunning: return "running";
    case State::kSucceeded: return "succeeded";
    case State::kCancelled: return "cancelled";
    case State::kTimedOut: return "timed out";
    case State::kRejected: return "rejected";
    case State::kFailed: return "failed";
  }
  return "";
}

}  // namespace infer::engine
