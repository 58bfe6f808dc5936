#pragma once
/// The last requests that ended, each with its way through the phases: what a trace is drawn from.
#include <deque>
#include <mutex>
#include <vector>

#include "runtime/engine/request.h"

namespace infer::engine {

struct RequestSpan {
  int64_t number = 0;  ///< in the order in which requests came to the engine
  std::string model;
  int64_t version = 0;
  Priority priority = Priority::kNormal;
  State end = State::kFailed;
  int64_t came_ns = 0;  ///< by the engine's clock
  Phases phases;        ///< one behind the other, the rest until total_ns is until it was told
  int64_t batch_rows = 0;
};

/// Bounded: the oldest go, and are counted. May be used from any thread; the engine adds to it
/// before a callback is called (EngineOptions::log).
class RequestLog {
 public:
  static constexpr size_t kMost = 65'536;
  explicit RequestLog(size_t most = kMost) : most_(most) {}

  void Add(RequestSpan span);
  std::vector<RequestSpan> Spans() const;  ///< in the order in which they ended
  int64_t dropped() const;
  void Clear();

 private:
  const size_t most_;
  mutable std::mutex mutex_;
  std::deque<RequestSpan> spans_;
  int64_t dropped_ = 0;
};

}  // namespace infer::engine
