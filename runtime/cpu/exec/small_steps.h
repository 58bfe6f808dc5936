#pragma once
/// Small steps stay on one lane: where waking the others costs more than they would save.
#include <optional>

#include "runtime/plan_ir/lanes.h"

namespace infer {

/// What a loop on all lanes of this thread costs beside its work, in microseconds: the median of
/// some that do nothing, the least of what was measured in this process (again after 20 ms, 40,
/// 80, ..., when asked). 20 to 80 where waiting threads sleep (OMP_WAIT_POLICY=passive), below 1
/// where they spin. Pre: the thread has more than one lane.
double WakeMicroseconds();

/// Roughly what a step takes on one lane.
double EstimateMicroseconds(const Cost& cost, bool on_reference);

/// Chooses step by step while a shape plan is made, so that each is prepared for as many lanes as
/// it will run on: primitives of oneDNN keep to the number they were made with.
class StepLanes {
 public:
  /// Pre: the thread holds the lanes that runs will ask for, or as many of them as are free.
  explicit StepLanes(int lanes) : lanes_(lanes) {}
  /// Whether the step runs on one lane. Until the next call this thread has as many.
  bool Begin(const Cost& cost, bool on_reference);

 private:
  int lanes_;
  std::optional<HeldLanes> one_;
};

}  // namespace infer
