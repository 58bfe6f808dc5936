#pragma once
/// The one way to run a loop on several threads, and the process-wide budget of lanes behind it.
/// A *lane* is one runnable thread. A run takes lanes (LaneLease) for its duration; loops inside it
/// use at most those. Concurrent runs together never exceed the budget. The threads stand in one
/// pool (lib/support/lane_pool.h), are made when a loop first needs them, and sleep between loops.
#include <cstdint>

#include "lib/support/function_ref.h"

namespace infer {

/// Physical cores that this process may use: min(affinity mask, cgroup CPU quota, physical cores).
int AvailableCores();

/// The number of lanes of the process. Default: AvailableCores(). Pre: lanes >= 1.
void SetLaneBudget(int lanes);
int LaneBudget();

/// Who goes first where lanes are short. Whoever waits is overtaken a limited number of times
/// (lib/support/lane_queue.h), so that nobody starves.
enum class Priority : uint8_t { kLow, kNormal, kHigh };

/// Takes up to `wanted` lanes (<= 0: the whole budget) for the calling thread, and gives them back
/// in its destructor, on the same thread. Waits until at least one is free; never waits for more.
/// A stop or deadline of the thread's StopScopes ends the wait: the lease then holds nothing, and
/// the thread has one lane until it sees the stop. Nested leases on one thread, and those inside a
/// ParallelFor body, share the outer one.
class LaneLease {
 public:
  explicit LaneLease(int wanted, Priority priority = Priority::kNormal);
  ~LaneLease();
  LaneLease(const LaneLease&) = delete;
  LaneLease& operator=(const LaneLease&) = delete;
  int lanes() const;
  /// For between two launches; a few nanoseconds where there is nothing to do. While somebody more
  /// urgent waits, all lanes but one are given up, and the last one, too, where no other is free:
  /// then it waits as the constructor does. Afterwards lanes that are free are taken again, up to
  /// `wanted`. Does nothing in a nested lease.
  void Adjust();

 private:
  void Give(int lanes);

  int wanted_;
  int taken_ = 0;     // from the budget; 0 for a nested lease
  int previous_ = 0;  // the thread's lanes before
  Priority priority_;
};

/// Lanes that a ParallelFor on this thread may use now: 1 without a lease and inside a loop body.
int CurrentLanes();
/// Whether this thread is in a ParallelFor body, where loops run on it alone.
bool IsInLoop();
/// Whether this thread holds lanes, or works for somebody who does. Such a thread must not wait for
/// somebody who waits for lanes.
bool HoldsLanes();

/// Makes sure that there are threads for `lanes` lanes of this thread. Throws std::system_error
/// where the system has none. ParallelFor needs no such call: it does with fewer.
void ReserveLanes(int lanes);

/// Calls body(begin, end) over disjoint ranges that cover [0, n), each at least `grain` long but
/// the last. How the ranges are cut depends on the lanes and on what else the machine does, so a
/// body must give the same bits for any cut: reductions are done within one index. Pre: grain >= 1.
/// A body may throw (std::bad_alloc): the other ranges are still run, then the first exception that
/// was caught is thrown here, on the calling thread, with its lanes as they were.
/// In a StoppableLoops scope (lib/support/stop.h) it throws Stopped when the thread's scopes ask.
void ParallelFor(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);

}  // namespace infer
