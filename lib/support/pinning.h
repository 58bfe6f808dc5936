#pragma once
/// Processors for the lanes of a run, chosen by the caller: an instance of a model stays on a NUMA
/// node, or on cores of its own, so that what it wrote last is in caches and memory near to it.
#include <sched.h>

#include <vector>

#include "lib/support/status.h"

namespace infer {

/// Processors of one lane, and their comparison.
class CpuMask {
 public:
  CpuMask() { CPU_ZERO(&set_); }
  /// Numbers that a mask cannot hold (CPU_SETSIZE and above) are left out.
  explicit CpuMask(const std::vector<int>& cpus);
  /// Of the calling thread; empty where the system does not tell.
  static CpuMask OfThisThread();
  bool empty() const { return CPU_COUNT(&set_) == 0; }
  bool operator==(const CpuMask& o) const { return CPU_EQUAL(&set_, &o.set_) != 0; }
  const cpu_set_t& set() const { return set_; }

 private:
  cpu_set_t set_;
};

/// Lane i of a run (0: the thread that runs) may run on masks[i % masks.size()].
using LaneMasks = std::vector<CpuMask>;

/// InvalidArgument where lanes are bound by OMP_PROC_BIND already, and cannot be pinned besides.
Status CanPinLanes();

/// While it lives, the calling thread and the lanes that it takes run where `masks` say; afterwards
/// the thread runs where it did before. A mask that the system refuses (processors that went away)
/// changes nothing. nullptr, empty masks, and a scope within a loop or a lease do nothing.
class PinScope {
 public:
  explicit PinScope(const LaneMasks* masks);
  ~PinScope();
  PinScope(const PinScope&) = delete;
  PinScope& operator=(const PinScope&) = delete;

 private:
  const LaneMasks* outer_;
  bool pins_ = false;
  CpuMask before_;
};

/// For lib/support/lane_pool.h: where lane `lane` of this thread's team belongs; nullptr: the whole
/// process.
const CpuMask* MaskOfLane(int lane);
/// Where threads run that nobody pinned: as the process's first PinScope found it.
const CpuMask& UnpinnedMask();

}  // namespace infer
