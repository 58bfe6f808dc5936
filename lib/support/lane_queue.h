#pragma once
/// The lanes of the process as numbers: who has how many, and who is next. The threads are
/// lib/support/lane_pool.h's; what runs ask is lib/support/parallel.h.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "lib/support/parallel.h"

namespace infer {

/// Who waits in any queue, for a look that costs nothing.
inline std::atomic<int> lane_waiters{0};

/// Lanes are taken by one exchange. Only where none is free a taker joins a queue: who gives lanes
/// back hands them to the next in it and wakes no other, so that no more threads can run than have
/// lanes. Next is the most urgent, and among equals the first to come. Whoever waits becomes one
/// level more urgent each time that kPatience later ones have overtaken it. Thread-safe.
class LaneQueue {
 public:
  static constexpr int kPatience = 4;

  explicit LaneQueue(int total) : total_(total) {}
  int total() const { return total_; }
  int used() const { return used_; }
  void SetTotal(int lanes);
  /// Between 1 and `wanted` (<= 0: any number) lanes. Waits for the first, until the calling
  /// thread's StopScopes ask to stop: then 0.
  int Take(int wanted, Priority priority);
  /// Without waiting, and not while anybody waits; perhaps 0.
  int TakeFree(int wanted);
  void GiveBack(int lanes);
  /// Whether somebody more urgent waits. One atomic read.
  bool MoreUrgentWaits(Priority than) const { return most_urgent_ > static_cast<int>(than); }
  int waiting() const { return waiting_; }

  /// Around fork: no thread holds the lock in between. In the child nobody waits, and `used` lanes
  /// are taken.
  void BeforeFork() { mutex_.lock(); }
  void AfterFork() { mutex_.unlock(); }
  void InChild(int used);

 private:
  struct Waiter {
    int wanted;
    int urgency;
    int overtaken = 0;
    int given = 0;
    std::condition_variable served = {};
    int rank() const { return urgency + overtaken / kPatience; }
  };

  int TryTake(int wanted);  // 0: none is free
  void Serve();             // pre: mutex_ is held
  void QueueChanged();      // pre: mutex_ is held

  std::atomic<int> total_;
  std::atomic<int> used_ = 0;
  std::atomic<int> waiting_ = 0;       // size of queue_
  std::atomic<int> most_urgent_ = -1;  // largest rank in queue_
  std::mutex mutex_;
  std::vector<Waiter*> queue_;  // in the order of arrival
};

}  // namespace infer
