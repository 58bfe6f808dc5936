#pragma once
/// Lanes of the calling thread, and with them the threads of a backend's libraries.
#include "lib/support/lane_queue.h"
#include "lib/support/parallel.h"
#include "runtime/plan_ir/plan_backend.h"

namespace infer {

class HeldLanes {
 public:
  /// `host` outlives it.
  HeldLanes(const PlanBackend& host, int wanted, Priority priority = Priority::kNormal)
      : wanted_(wanted),
        lease_(wanted, priority),
        host_(host),
        before_(host.UseThreads(lease_.lanes())),
        has_all_(lease_.lanes() >= wanted) {}
  ~HeldLanes() { host_.UseThreads(before_); }
  HeldLanes(const HeldLanes&) = delete;
  HeldLanes& operator=(const HeldLanes&) = delete;
  int lanes() const { return lease_.lanes(); }
  /// As LaneLease::Adjust.
  void Adjust() {
    if (has_all_ && lane_waiters.load(std::memory_order_relaxed) == 0) return;
    const int before = lanes();
    lease_.Adjust();
    has_all_ = lanes() >= wanted_;
    if (lanes() != before) host_.UseThreads(lanes());
  }

 private:
  int wanted_;
  LaneLease lease_;
  const PlanBackend& host_;
  int before_;
  bool has_all_;
};

}  // namespace infer
