#include "lib/support/parallel.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <utility>

#include "lib/support/lane_pool.h"
#include "lib/support/lane_queue.h"
#include "lib/support/spin.h"
#include "lib/support/status.h"
#include "lib/support/stop.h"

namespace infer {
namespace {

/// For each lane, where others want some of the processors: whoever runs takes the next range.
constexpr int64_t kCrowdedRanges = 4;
/// For each lane, where a stop is looked for between ranges.
constexpr int64_t kStoppableRanges = 64;

thread_local int t_lanes = 0;         // of this thread's lease; 0: none
thread_local int t_taken = 0;         // from the budget
thread_local bool t_in_loop = false;  // inside a ParallelFor body

LaneQueue& TheQueue();

/// The child of a fork has the forking thread alone, and the lanes that this one had.
void HandleForks() {
  pthread_atfork(
      [] {
        LockPool();
        TheQueue().BeforeFork();
      },
      [] {
        TheQueue().AfterFork();
        UnlockPool();
      },
      [] {
        TheQueue().InChild(t_taken);
        ForgetPool();
        Team::OfThisThread().ForgetLanes();
      });
}

/// Never destroyed: threads may give lanes back while the process ends.
LaneQueue& TheQueue() {
  static auto& queue = *new LaneQueue(AvailableCores());
  static const bool handled = (HandleForks(), true);
  static_cast<void>(handled);
  return queue;
}

class InLoop {
 public:
  InLoop() : before_(std::exchange(t_in_loop, true)) {}
  ~InLoop() { t_in_loop = before_; }

 private:
  bool before_;
};

/// The ranges of one loop. An exception must not leave a lane, which would end the process; the
/// first is kept for the caller.
class Ranges {
 public:
  Ranges(int64_t n, int64_t count, FunctionRef<void(int64_t, int64_t)> body)
      : n_(n), count_(count), body_(body), scopes_(StopScopes()), looks_(LoopsLookForStops()) {}

  /// Those that nobody has taken, one after the other.
  void RunAll() noexcept {
    const InLoop in_loop;
    const StopScopesOf same(scopes_);
    for (int64_t i = 0; (i = next_++) < count_;) Run(i);
  }
  /// The one.
  void RunOne(int64_t i) noexcept {
    const InLoop in_loop;
    const StopScopesOf same(scopes_);
    Run(i);
  }

  /// Once every range has run.
  void Rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  void Run(int64_t i) noexcept {
    try {
      if (looks_) {
        if (Status stop = CheckStop(); !stop.ok()) {
          next_ = count_;
          throw Stopped(std::move(stop));
        }
      }
      body_(n_ * i / count_, n_ * (i + 1) / count_);
    } catch (...) {
      if (!failed_.exchange(true)) first_ = std::current_exception();
    }
  }

  int64_t n_, count_;
  FunctionRef<void(int64_t, int64_t)> body_;
  const StopScope* scopes_;
  bool looks_;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr first_;
};

/// On the calling thread alone, with looks in between.
void RunStoppable(int64_t n, int64_t count, FunctionRef<void(int64_t, int64_t)> body) {
  for (int64_t i = 0; i < count; ++i) {
    if (Status stop = CheckStop(); !stop.ok()) throw Stopped(std::move(stop));
    body(n * i / count, n * (i + 1) / count);
  }
}

}  // namespace

void SetLaneBudget(int lanes) {
  INFER_CHECK(lanes >= 1);
  TheQueue().SetTotal(lanes);
}

int LaneBudget() { return TheQueue().total(); }

LaneLease::LaneLease(int wanted, Priority priority)
    : wanted_(wanted), previous_(t_lanes), priority_(priority) {
  if (t_in_loop) return;
  if (t_lanes > 0) {
    if (wanted > 0) t_lanes = std::min(t_lanes, wanted);
    return;
  }
  taken_ = t_taken = TheQueue().Take(wanted, priority);
  t_lanes = std::max(1, taken_);
  CountRunnable(1);
}

LaneLease::~LaneLease() {
  if (t_in_loop) return;
  t_lanes = previous_;
  if (previous_ > 0) return;
  CountRunnable(-1);
  Give(taken_);
}

void LaneLease::Give(int lanes) {
  if (lanes == 0) return;
  taken_ -= lanes;
  t_taken = taken_;
  Team::OfThisThread().ShrinkTo(std::max(1, taken_));
  TheQueue().GiveBack(lanes);
}

int LaneLease::lanes() const { return CurrentLanes(); }

void LaneLease::Adjust() {
  if (previous_ > 0 || t_in_loop || taken_ == 0) return;
  LaneQueue& queue = TheQueue();
  if (queue.MoreUrgentWaits(priority_)) {
    Give(taken_ - 1);
    if (queue.MoreUrgentWaits(priority_)) {
      Give(1);
      CountRunnable(-1);
      taken_ = queue.Take(wanted_, priority_);
      CountRunnable(1);
    }
  } else if (wanted_ <= 0 || taken_ < wanted_) {
    if (queue.used() >= queue.total()) return;
    taken_ += queue.TakeFree(wanted_ <= 0 ? 0 : wanted_ - taken_);
  }
  t_taken = taken_;
  t_lanes = std::max(1, taken_);
}

int CurrentLanes() { return t_in_loop ? 1 : std::max(1, t_lanes); }

bool IsInLoop() { return t_in_loop; }

bool HoldsLanes() { return t_in_loop || t_lanes > 0; }

void ReserveLanes(int lanes) {
  if (t_in_loop || lanes <= 1) return;
  Team& team = Team::OfThisThread();
  team.GrowTo(lanes);
  if (team.size() < lanes)
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                            "no threads for the lanes");
}

void ParallelFor(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  INFER_CHECK(grain >= 1);
  if (n <= 0) return;
  const int64_t most = (n + grain - 1) / grain;
  const int held = static_cast<int>(std::min<int64_t>(CurrentLanes(), most));
  const bool looks = LoopsLookForStops();
  if (held <= 1)  // a loop inside may still spread
    return looks ? RunStoppable(n, std::min(most, kStoppableRanges), body) : body(0, n);
  const int lanes = UsefulLanes(held);
  const int64_t each = looks ? kStoppableRanges : lanes > 1 && lanes < held ? kCrowdedRanges : 1;
  Ranges all(n, std::min(most, held * each), body);
  const auto one = [&](int i) { all.RunOne(i); };
  const auto next = [&](int) { all.RunAll(); };
  Team& team = Team::OfThisThread();
  team.GrowTo(lanes);
  if (lanes == held && each == 1)
    team.Run(lanes, one, lanes);
  else
    team.Run(lanes, next, lanes);
  all.Rethrow();
}

}  // namespace infer
