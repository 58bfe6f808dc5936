#include "lib/support/parallel.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/support/status.h"

#ifdef INFER_USE_OPENMP
#include <omp.h>
#endif

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
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0)
    return std::max(1u, std::thread::hardware_concurrency());
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

struct Budget {
  std::mutex mutex;
  std::condition_variable freed;
  int total = AvailableCores();
  int used = 0;
};
Budget& TheBudget() {
  static Budget budget;
  return budget;
}

thread_local int t_lanes = 0;         // of this thread's lease; 0: none
thread_local bool t_in_loop = false;  // inside a ParallelFor body

}  // namespace

int AvailableCores() {
  static const int cores = std::min(PhysicalCores(), CgroupQuota());
  return cores;
}

void SetLaneBudget(int lanes) {
  INFER_CHECK(lanes >= 1);
  Budget& b = TheBudget();
  std::lock_guard lock(b.mutex);
  b.total = lanes;
  b.freed.notify_all();
}

int LaneBudget() {
  Budget& b = TheBudget();
  std::lock_guard lock(b.mutex);
  return b.total;
}

LaneLease::LaneLease(int wanted) : previous_(t_lanes) {
  if (t_lanes > 0) {
    if (wanted > 0) t_lanes = std::min(t_lanes, wanted);
    return;
  }
  Budget& b = TheBudget();
  std::unique_lock lock(b.mutex);
  b.freed.wait(lock, [&] { return b.used < b.total; });
  const int free = b.total - b.used;
  taken_ = wanted <= 0 ? free : std::min(free, wanted);
  b.used += taken_;
  t_lanes = taken_;
}

LaneLease::~LaneLease() {
  t_lanes = previous_;
  if (taken_ == 0) return;
  Budget& b = TheBudget();
  std::lock_guard lock(b.mutex);
  b.used -= taken_;
  b.freed.notify_all();
}

int LaneLease::lanes() const { return CurrentLanes(); }

int CurrentLanes() { return t_in_loop ? 1 : std::max(1, t_lanes); }

void ParallelRanges(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  INFER_CHECK(grain >= 1);
  if (n <= 0) return;
  const auto parts = static_cast<int>(std::min<int64_t>(CurrentLanes(), (n + grain - 1) / grain));
  if (parts <= 1) return body(0, n);  // a loop inside may still spread
  auto part = [&](int i) {
    t_in_loop = true;
    body(n * i / parts, n * (i + 1) / parts);
    t_in_loop = false;
  };
#ifdef INFER_USE_OPENMP
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int i = 0; i < parts; ++i) part(i);
#else
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(parts) - 1);
  for (int i = 1; i < parts; ++i) threads.emplace_back(part, i);
  part(0);
  for (std::thread& t : threads) t.join();
#endif
}

}  // namespace infer
