/// The cores that this process may use.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "lib/support/parallel.h"
#include "lib/support/places.h"
#include "lib/support/topology.h"

namespace infer {
namespace {

/// CPUs granted by cgroup v2 or v1; a large number when there is no quota.
int CgroupQuota() {
  auto read_pair = [](const char* path, double* a, double* b) {
    std::ifstream f(path);
    std::string first;
    if (!(f >> first) || first == "max") return false;
    *a = std::strtod(first.c_str(), nullptr);
    return static_cast<bool>(f >> *b);
  };
  double quota = 0, period = 0;
  if (!read_pair("/sys/fs/cgroup/cpu.max", &quota, &period)) {
    std::ifstream q("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
        p("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    if (!(q >> quota) || !(p >> period)) return 1 << 20;
  }
  if (quota <= 0 || period <= 0) return 1 << 20;
  return std::max(1, static_cast<int>(std::lround(quota / period)));
}

int PhysicalCores() {
  // With OMP_PROC_BIND this thread's mask is its own place alone.
  if (const int places = Places()) return places;
  return std::max(1, ThisTopology().cores());
}

}  // namespace

int AvailableCores() {
  static const int cores = std::min(PhysicalCores(), CgroupQuota());
  return cores;
}

}  // namespace infer
