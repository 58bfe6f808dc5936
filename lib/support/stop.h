#pragma once
/// Stop tokens and deadlines by thread: what runs deep inside (the iterations of a loop, the nodes
/// of a body, whoever waits for lanes) sees those of the run that it belongs to without being
/// handed them.
#include <chrono>
#include <functional>
#include <list>
#include <stop_token>
#include <utility>

#include "lib/support/status.h"

namespace infer {

using Deadline = std::chrono::steady_clock::time_point;
constexpr Deadline kNoDeadline = Deadline::max();

/// While it lives, what the calling thread does ends early when `token` asks for it, or once
/// `deadline` has passed; those of outer scopes hold, too. A token that can never ask costs
/// nothing, a deadline the reading of a clock at each look.
class StopScope {
 public:
  explicit StopScope(std::stop_token token, Deadline deadline = kNoDeadline);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  friend bool StopRequested();
  friend Status CheckStop();
  friend class StopWait;
  bool Asks() const { return token_.stop_requested() || Late(); }
  bool Late() const;

  std::stop_token token_;
  Deadline deadline_;
  const StopScope* outer_;
};

/// Whether a scope of this thread asks to stop. A few nanoseconds.
bool StopRequested();
/// Cancelled when StopRequested(). For loops whose length the input decides.
Status CheckStop();

/// The scopes of this thread; nullptr: none.
const StopScope* StopScopes();
/// While it lives, the calling thread has the scopes of another one, which outlive it.
class StopScopesOf {
 public:
  explicit StopScopesOf(const StopScope* scopes);
  ~StopScopesOf();
  StopScopesOf(const StopScopesOf&) = delete;
  StopScopesOf& operator=(const StopScopesOf&) = delete;

 private:
  const StopScope* before_;
};

/// For a wait that a stop ends: calls `wake`, from any thread and perhaps at once, when a token of
/// this thread's scopes asks. The caller waits no longer than until deadline(), and looks at
/// StopRequested(). Must be made and destroyed without a lock that `wake` takes.
class StopWait {
 public:
  explicit StopWait(const std::function<void()>& wake);
  Deadline deadline() const { return deadline_; }

 private:
  std::list<std::stop_callback<std::function<void()>>> callbacks_;
  Deadline deadline_ = kNoDeadline;
};

/// What ParallelFor throws for a stop; a Status of kCancelled where exceptions end.
class Stopped : public std::exception {
 public:
  explicit Stopped(Status why) : why_(std::move(why)) {}
  const Status& status() const { return why_; }
  const char* what() const noexcept override { return why_.message().c_str(); }

 private:
  Status why_;
};

/// While it lives, ParallelFor of the calling thread looks for a stop between short ranges. For
/// loops that take long: reference kernels. Others would lose time by it.
class StoppableLoops {
 public:
  StoppableLoops();
  ~StoppableLoops();
  StoppableLoops(const StoppableLoops&) = delete;
  StoppableLoops& operator=(const StoppableLoops&) = delete;

 private:
  bool before_;
};
/// Whether there is such a scope, and something that could ask.
bool LoopsLookForStops();

}  // namespace infer
