#pragma once
/// The one way to run a loop on several threads, and the process-wide budget of lanes behind it.
/// A *lane* is one runnable thread. A run takes lanes (LaneLease) for its duration; loops inside it
/// use at most those. Concurrent runs together never exceed the budget.
#include <cstdint>

#include "lib/support/function_ref.h"

namespace infer {

/// Physical cores that this process may use: min(affinity mask, cgroup CPU quota, physical cores).
int AvailableCores();

/// The number of lanes of the process. Default: AvailableCores(). Pre: lanes >= 1.
void SetLaneBudget(int lanes);
int LaneBudget();

/// Takes up to `wanted` lanes (<= 0: the whole budget) for the calling thread. Waits until at least
/// one is free; never waits for more. Nested leases on one thread share the outer one. Throws
/// std::system_error where the system has no threads for them.
class LaneLease {
 public:
  explicit LaneLease(int wanted);
  ~LaneLease();
  LaneLease(const LaneLease&) = delete;
  LaneLease& operator=(const LaneLease&) = delete;
  int lanes() const;

 private:
  int taken_ = 0;     // from the budget; 0 for a nested lease
  int previous_ = 0;  // the thread's lanes before
};

/// Lanes that a ParallelFor on this thread may use now: 1 without a lease and inside a loop body.
int CurrentLanes();

/// Calls body(begin, end) over disjoint ranges that cover [0, n), each at least `grain` long but
/// the last. How the ranges are cut depends on the lanes, so a body must give the same bits for any
/// cut: reductions are done within one index. Pre: grain >= 1.
/// A body may throw (std::bad_alloc): the other ranges are still run, then the first exception that
/// was caught is thrown here, on the calling thread, with its lanes as they were.
void ParallelFor(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);

}  // namespace infer
