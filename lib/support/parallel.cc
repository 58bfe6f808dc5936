#include "lib/support/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
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
#ifdef INFER_USE_OPENMP
  // With OMP_PROC_BIND this thread's mask is its own place alone.
  if (omp_get_proc_bind() != omp_proc_bind_false && omp_get_num_places() > 0)
    return omp_get_num_places();
#endif
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

/// A run takes its lanes by one exchange. Only where none is free it joins a queue: who gives lanes
/// back hands them to the first in it and wakes no other, so that no more threads can run than have
/// lanes.
class Budget {
 public:
  int total() const { return total_; }

  void SetTotal(int lanes) {
    const std::lock_guard lock(mutex_);
    total_ = lanes;
    Serve();
  }

  int Take(int wanted) {
    if (waiting_ == 0)
      if (const int taken = TryTake(wanted)) return taken;
    Waiter self{wanted};
    std::unique_lock lock(mutex_);
    queue_.push_back(&self);  // before the count: it may throw
    ++waiting_;
    Serve();
    self.served.wait(lock, [&] { return self.given > 0; });
    return self.given;
  }

  void GiveBack(int lanes) {
    used_ -= lanes;
    // Whoever counted himself before this saw the old number, or is seen here.
    if (waiting_ == 0) return;
    const std::lock_guard lock(mutex_);
    Serve();
  }

 private:
  struct Waiter {
    int wanted = 0, given = 0;
    std::condition_variable served = {};
  };

  /// 0: none is free.
  int TryTake(int wanted) {
    int used = used_;
    for (;;) {
      const int free = total_ - used;
      if (free <= 0) return 0;
      const int take = wanted <= 0 ? free : std::min(free, wanted);
      if (used_.compare_exchange_weak(used, used + take)) return take;
    }
  }

  /// Pre: mutex_ is held.
  void Serve() {
    while (!queue_.empty()) {
      Waiter& first = *queue_.front();
      first.given = TryTake(first.wanted);
      if (first.given == 0) return;
      queue_.pop_front();
      --waiting_;
      first.served.notify_one();
    }
  }

  std::atomic<int> total_ = AvailableCores();
  std::atomic<int> used_ = 0;
  std::atomic<int> waiting_ = 0;  // size of queue_
  std::mutex mutex_;
  std::deque<Waiter*> queue_;
};
Budget& TheBudget() {
  static Budget budget;
  return budget;
}

thread_local int t_lanes = 0;         // of this thread's lease; 0: none
thread_local bool t_in_loop = false;  // inside a ParallelFor body

/// The parts of one loop. An exception must not leave a thread of the team, which would end the
/// process; the first is kept for the caller.
class Parts {
 public:
  Parts(int64_t n, int count, FunctionRef<void(int64_t, int64_t)> body)
      : n_(n), count_(count), body_(body) {}

  void Run(int i) noexcept {
    t_in_loop = true;
    try {
      body_(n_ * i / count_, n_ * (i + 1) / count_);
    } catch (...) {
      if (!failed_.exchange(true)) first_ = std::current_exception();
    }
    t_in_loop = false;
  }

  /// Once every part has run and its thread is joined.
  void Rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  int64_t n_;
  int count_;
  FunctionRef<void(int64_t, int64_t)> body_;
  std::atomic<bool> failed_{false};
  std::exception_ptr first_;
};

/// Makes sure that this thread can have a team of so many. An OpenMP runtime that gets no thread
/// ends the process, with an exit code of its own choice. Here it is an exception
/// (std::system_error), and the memory of the stacks, which the C library keeps, is what the team
/// gets next. Once for each size of a team.
void ReserveTeam(int lanes) {
  thread_local int most = 1;
  if (lanes <= most) return;
  std::mutex hold;
  std::vector<std::jthread> threads;
  std::unique_lock held(hold);  // given up before they are joined, also where one cannot be made
  threads.reserve(static_cast<size_t>(lanes));
  for (int i = 1; i < lanes; ++i) threads.emplace_back([&hold] { std::scoped_lock wait(hold); });
  held.unlock();
  most = lanes;
}

#ifndef INFER_USE_OPENMP
/// The process may have no more threads: this one runs the part.
void Start(std::vector<std::thread>& threads, Parts& parts, int i) {
  try {
    threads.emplace_back([&parts, i] { parts.Run(i); });
  } catch (const std::system_error&) {
    parts.Run(i);
  }
}
#endif

}  // namespace

int AvailableCores() {
  static const int cores = std::min(PhysicalCores(), CgroupQuota());
  return cores;
}

void SetLaneBudget(int lanes) {
  INFER_CHECK(lanes >= 1);
  TheBudget().SetTotal(lanes);
}

int LaneBudget() { return TheBudget().total(); }

LaneLease::LaneLease(int wanted) : previous_(t_lanes) {
  if (t_lanes > 0) {
    if (wanted > 0) t_lanes = std::min(t_lanes, wanted);
    return;
  }
  taken_ = TheBudget().Take(wanted);
  try {
    ReserveTeam(taken_);
  } catch (...) {
    TheBudget().GiveBack(taken_);
    throw;
  }
  t_lanes = taken_;
}

LaneLease::~LaneLease() {
  t_lanes = previous_;
  if (taken_ > 0) TheBudget().GiveBack(taken_);
}

int LaneLease::lanes() const { return CurrentLanes(); }

int CurrentLanes() { return t_in_loop ? 1 : std::max(1, t_lanes); }

void ParallelFor(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  INFER_CHECK(grain >= 1);
  if (n <= 0) return;
  const int lanes = CurrentLanes();
  const auto parts = static_cast<int>(std::min<int64_t>(lanes, (n + grain - 1) / grain));
  if (parts <= 1) return body(0, n);  // a loop inside may still spread
  Parts all(n, parts, body);
#ifdef INFER_USE_OPENMP
  // A team of all lanes, though some have nothing to do: libgomp ends the threads that a smaller
  // team leaves out, and starts new ones for the next larger.
  const int team = std::max(parts, std::min(lanes, AvailableCores()));
#pragma omp parallel for num_threads(team) schedule(static, 1)
  for (int i = 0; i < parts; ++i) all.Run(i);
#else
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(parts) - 1);
  for (int i = 1; i < parts; ++i) Start(threads, all, i);
  all.Run(0);
  for (std::thread& t : threads) t.join();
#endif
  all.Rethrow();
}

}  // namespace infer
