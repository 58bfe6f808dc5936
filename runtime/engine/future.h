#pragma once
/// The answer to one request, for a thread that may wait for it.
#include <chrono>
#include <future>
#include <memory>

#include "runtime/engine/request.h"

namespace infer::engine {

class Core;
class Pending;

/// As std::future<Outcome>, with one difference: a thread that waits without a limit runs the
/// request itself, in the place of one of the pool, where it was to run alone and no thread of the
/// pool has begun it. So a short request behind a pause waits for no thread to wake. A future that
/// is dropped drops the outcome; the request runs nevertheless. Belongs to one thread at a time,
/// and may outlive the engine.
class Future {
 public:
  Future() = default;
  Future(Future&&) = default;
  Future& operator=(Future&&) = default;

  /// Whether there is an answer to get. Pre of all below: valid().
  bool valid() const { return told_.valid(); }
  /// Waits for the answer, and gives it once.
  Outcome get();
  void wait() const;
  /// These run nothing: a run may take longer than the caller has.
  template <typename Rep, typename Period>
  std::future_status wait_for(const std::chrono::duration<Rep, Period>& time) const {
    return told_.wait_for(time);
  }
  template <typename Clock, typename Duration>
  std::future_status wait_until(const std::chrono::time_point<Clock, Duration>& time) const {
    return told_.wait_until(time);
  }
  /// For what takes the standard's; who waits in that runs nothing.
  operator std::future<Outcome>() && { return std::move(told_); }

 private:
  friend class Engine;

  std::future<Outcome> told_;
  std::weak_ptr<Core> core_;
  std::weak_ptr<Pending> request_;  // of a route: that to its first variant
};

}  // namespace infer::engine
