#pragma once
/// How long a thread that waits for another looks again before it sleeps, and how many threads are
/// worth waking. To be woken costs 5 to 50 microseconds, so short gaps are spun away; but a thread
/// that spins takes a processor from whoever could use it, and a lane whose processor others want
/// may lose it in the middle of a range, for which all of its team waits then.
#include <cstdint>

namespace infer {

/// Nanoseconds of a steady clock.
int64_t NowNs();

/// What one thread learnt of its gaps. Belongs to that thread.
class SpinTime {
 public:
  int64_t limit_ns() const { return limit_ns_; }
  /// A gap of this length is over.
  void Learn(int64_t gap_ns);

  static constexpr int64_t kLeastNs = 20'000, kMostNs = 2'000'000;

 private:
  int64_t limit_ns_ = kMostNs;
};

/// One wait: while (!there && spin.Again()).
class Spin {
 public:
  /// `limit_ns`: of SpinTime, or a limit of the caller's. With OMP_WAIT_POLICY=passive, and while
  /// more threads want to run than there are processors, it is over after some 2 microseconds.
  explicit Spin(int64_t limit_ns) : limit_(limit_ns) {}
  /// False: time to sleep. The first calls, some 2 microseconds, look at no clock.
  bool Again() {
    Pause();
    return ++looks_ % kLooks != 0 || LookAround();
  }
  /// Since the first look at the clock.
  int64_t Elapsed() const { return begin_ == 0 ? 0 : NowNs() - begin_; }

 private:
  static constexpr unsigned kLooks = 32;  // between two readings of the clock
  static void Pause() {
#ifdef __x86_64__
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  bool LookAround();

  int64_t limit_, begin_ = 0;
  unsigned looks_ = 0;
};

/// How many of `lanes` lanes a loop is fastest on. Those that have a processor that nobody else
/// wants, as long as they are half of all; where they are fewer, all, since each has half of a
/// processor then. /proc/loadavg, read at most every 4 ms, tells how many threads want to run;
/// where it tells nothing, and with OMP_WAIT_POLICY=active, all lanes are.
int UsefulLanes(int lanes);
/// How many threads of ours want to run: `change` more. For lanes, and for callers with a lease.
void CountRunnable(int change);

/// For tests: as if others left so many processors; -1: find out.
void PretendFreeProcessors(int processors);

}  // namespace infer
