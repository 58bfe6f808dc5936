#pragma once
/// Lanes of the calling thread, and with them the threads of a backend's libraries.
#include "lib/support/parallel.h"
#include "runtime/plan_ir/plan_backend.h"

namespace infer {

class HeldLanes {
 public:
  /// `host` outlives it.
  HeldLanes(const PlanBackend& host, int wanted, Priority priority = Priority::kNormal)
      : lease_(wanted, priority), host_(host), before_(host.UseThreads(lease_.lanes())) {}
  ~HeldLanes() { host_.UseThreads(before_); }
  HeldLanes(const HeldLanes&) = delete;
  HeldLanes& operator=(const HeldLanes&) = delete;
  int lanes() const { return lease_.lanes(); }
  /// As LaneLease::Adjust.
  void Adjust() {
    const int before = lanes();
    lease_.Adjust();
    if (lanes() != before) host_.UseThreads(lanes());
  }

 private:
  LaneLease lease_;
  const PlanBackend& host_;
  int before_;
};

}  // namespace infer
