#pragma once
/// The standing threads of the process: made when they are first needed, asleep when they are not,
/// never ended. Who may use how many is lib/support/lane_queue.h's business; loops and leases are
/// lib/support/parallel.h.
#include <functional>

#include "lib/support/function_ref.h"

namespace infer {

/// The threads that work for one caller: it and those that it took from the pool. Belongs to the
/// calling thread.
class Team {
 public:
  /// The calling thread's.
  static Team& OfThisThread();
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// The caller and its lanes.
  int size() const;
  /// Takes lanes until there are `size`, or the system has no more threads.
  void GrowTo(int size);
  /// Gives all but `size` back.
  void ShrinkTo(int size);

  /// Calls part(0) on the calling thread and part(1) to part(count - 1), each once, on the team;
  /// returns when all have ended. Whoever has ended its part takes one that no lane has begun, so
  /// that nobody waits for a lane that is not awake. Lanes are woken for `awake` parts, the
  /// caller's included. Parts may wait for each other if size() >= count: lanes that were not woken
  /// look for parts now and then. `part` must not throw. Pre: count >= 1; the thread is in no part.
  void Run(int count, FunctionRef<void(int)> part, int awake);

  /// In the child of a fork, where there are no lanes.
  void ForgetLanes();

  // Of lane_pool.cc.
  class Door;
  struct Job;
  struct Lane;
  struct Members;

 private:
  Team();
  Members* members_;  // outlives the team: a lane may still be on its way out
};

/// Runs `work`, which must not throw, on a standing thread that is no lane of anybody. Throws
/// std::system_error where there is none.
void RunAside(std::function<void()> work);

/// Around fork, by lib/support/parallel.cc.
void LockPool();
void UnlockPool();
void ForgetPool();

}  // namespace infer
