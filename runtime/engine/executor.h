#pragma once
/// Time and threads as the engine sees them. Both are given to it, so that a simulation
/// (runtime/engine/simulation.h) replaces them and a run can be replayed.
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

#include "lib/support/status.h"

namespace infer::engine {

/// A moment that never comes, a wait without end.
inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// `ns` after `from`; kNever where that is beyond all moments.
inline int64_t After(int64_t from, int64_t ns) {
  int64_t at = 0;
  return __builtin_add_overflow(from, ns, &at) ? kNever : at;
}

class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds since some origin; never decreases. From any thread.
  virtual int64_t NowNs() const = 0;
};

using Task = std::function<void()>;

/// Which threads run a task.
enum class Place : uint8_t {
  kPool,    ///< width() of them
  kBeside,  ///< for urgent runs, while the pool is busy with less urgent ones: twice as many
  kAside,   ///< one, that nobody waits for
  kLoad,    ///< one, that loads models
};
inline constexpr size_t kPlaces = 4;

/// Where the engine's work is done. All functions may be called from any thread. Tasks do not
/// throw.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Models of one priority that can run at once.
  virtual int width() const = 0;
  /// Runs `task` on a thread of `place`, behind those that were posted there before.
  virtual void Post(Task task, Place place) = 0;
  /// Called as the last act of a posted task, or on a thread of a caller who waits: does `work`,
  /// which takes the time of a model, then `then`.
  virtual void Run(Task work, Task then) = 0;
  /// Runs a short task soon, also while every thread of the pool is busy.
  virtual void Deliver(Task task) = 0;
  /// As Deliver, at the moment `ns` of the engine's clock or a little later.
  virtual void WakeAt(int64_t ns, Task task) = 0;
};

/// CLOCK_MONOTONIC: steps of the wall clock do not touch it, and it stands still while the machine
/// is suspended, so that a suspended machine lets no request time out.
std::shared_ptr<const Clock> SteadyClock();

/// `threads` that run models (<= 0: AvailableCores()) and one for what is short, which sleeps until
/// it is needed. Those of other places are made when they are first needed; how many threads
/// compute at once is the business of lanes (lib/support/parallel.h). By SteadyClock(). The last
/// owner may let go of it on one of its own threads; tasks that have not begun are dropped.
/// ResourceExhausted where the system has no threads.
Result<std::shared_ptr<Executor>> MakeThreadExecutor(int threads);

}  // namespace infer::engine
