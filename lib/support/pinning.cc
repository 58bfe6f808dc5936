#include "lib/support/pinning.h"

#include <pthread.h>

#include "lib/support/parallel.h"
#include "lib/support/places.h"
#include "lib/support/topology.h"

namespace infer {
namespace {

thread_local const LaneMasks* t_masks = nullptr;

void Apply(const CpuMask& mask) {
  if (!mask.empty())
    static_cast<void>(pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), &mask.set()));
}

}  // namespace

CpuMask::CpuMask(const std::vector<int>& cpus) : CpuMask() {
  for (int cpu : cpus)
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &set_);
}

CpuMask CpuMask::OfThisThread() {
  CpuMask mask;
  if (pthread_getaffinity_np(pthread_self(), sizeof(cpu_set_t), &mask.set_) != 0)
    CPU_ZERO(&mask.set_);
  return mask;
}

Status CanPinLanes() {
  if (Places() == 0) return {};
  return InvalidArgument("OMP_PROC_BIND binds lanes to OMP_PLACES: unset it to place instances");
}

PinScope::PinScope(const LaneMasks* masks) : outer_(t_masks) {
  if (!masks || masks->empty() || HoldsLanes()) return;
  // Both remember the processors of the process when they are first asked.
  static_cast<void>(AvailableCores());
  static_cast<void>(UnpinnedMask());
  pins_ = true;
  before_ = CpuMask::OfThisThread();
  t_masks = masks;
  Apply(masks->front());
}

PinScope::~PinScope() {
  if (!pins_) return;
  t_masks = outer_;
  Apply(before_);
}

const CpuMask* MaskOfLane(int lane) {
  if (!t_masks) return nullptr;
  return &(*t_masks)[static_cast<size_t>(lane) % t_masks->size()];
}

const CpuMask& UnpinnedMask() {
  static const CpuMask mask = CpuMask::OfThisThread();
  return mask;
}

}  // namespace infer
