/// The cores that this process may use.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "lib/support/parallel.h"
#include "lib/support/places.h"

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

/// Distinct (package, core) pairs among the CPUs of the affinity mask.
int PhysicalCores() {
  // With OMP_PROC_BIND this thread's mask is its own place alone.
  if (const int places = Places()) return places;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0)
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::set<std::pair<int, int>> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string dir = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    int package = 0, core = cpu;
    std::ifstream(dir + "physical_package_id") >> package;
    std::ifstream(dir + "core_id") >> core;
    cores.emplace(package, core);
  }
  return std::max<int>(1, static_cast<int>(cores.size()));
}

}  // namespace

int AvailableCores() {
  static const int cores = std::min(PhysicalCores(), CgroupQuota());
  return cores;
}

}  // namespace infer
