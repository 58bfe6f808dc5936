#include "lib/support/lane_queue.h"

#include <algorithm>

#include "lib/support/stop.h"

namespace infer {

void LaneQueue::SetTotal(int lanes) {
  const std::lock_guard lock(mutex_);
  total_ = lanes;
  Serve();
}

int LaneQueue::TryTake(int wanted) {
  int used = used_;
  for (;;) {
    const int free = total_ - used;
    if (free <= 0) return 0;
    const int take = wanted <= 0 ? free : std::min(free, wanted);
    if (used_.compare_exchange_weak(used, used + take)) return take;
  }
}

int LaneQueue::TakeFree(int wanted) { return waiting_ == 0 ? TryTake(wanted) : 0; }

int LaneQueue::Take(int wanted, Priority priority) {
  if (const int taken = TakeFree(wanted)) return taken;
  Waiter self{.wanted = wanted, .urgency = static_cast<int>(priority)};
  const StopWait stop([&] {
    const std::lock_guard lock(mutex_);
    self.served.notify_one();
  });
  std::unique_lock lock(mutex_);
  queue_.push_back(&self);  // before the count: it may throw
  QueueChanged();
  Serve();
  const auto served = [&] { return self.given > 0 || StopRequested(); };
  if (stop.deadline() == kNoDeadline)
    self.served.wait(lock, served);
  else
    self.served.wait_until(lock, stop.deadline(), served);
  if (self.given == 0) {
    queue_.erase(std::find(queue_.begin(), queue_.end(), &self));
    QueueChanged();
  }
  return self.given;
}

void LaneQueue::GiveBack(int lanes) {
  used_ -= lanes;
  // Whoever counted himself before this saw the old number, or is seen here.
  if (waiting_ == 0) return;
  const std::lock_guard lock(mutex_);
  Serve();
}

void LaneQueue::Serve() {
  while (!queue_.empty()) {
    const auto next =
        std::max_element(queue_.begin(), queue_.end(),
                         [](const Waiter* a, const Waiter* b) { return a->rank() < b->rank(); });
    Waiter& first = **next;
    const int given = TryTake(first.wanted);
    if (given == 0) return;
    std::for_each(queue_.begin(), next, [](Waiter* earlier) { ++earlier->overtaken; });
    queue_.erase(next);
    QueueChanged();
    first.given = given;
    first.served.notify_one();
  }
}

void LaneQueue::QueueChanged() {
  int most = -1;
  for (const Waiter* w : queue_) most = std::max(most, w->rank());
  most_urgent_ = most;
  const int waiting = static_cast<int>(queue_.size());
  lane_waiters += waiting - waiting_.exchange(waiting);
}

void LaneQueue::InChild(int used) {
  queue_.clear();
  QueueChanged();
  used_ = used;
  mutex_.unlock();
}

}  // namespace infer
