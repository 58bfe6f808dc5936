#pragma once
/// How long a thread that waits for another looks again before it sleeps. To be woken costs 5 to 50
/// microseconds, so short gaps are spun away; but a thread that spins takes a processor from
/// whoever could use it, so it never does where more threads want to run than there are processors.
#include <cstdint>

namespace infer {

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
  /// `limit_ns`: of SpinTime, or a limit of the caller's.
  explicit Spin(int64_t limit_ns);
  /// False: time to sleep.
  bool Again();
  int64_t elapsed_ns() const { return now_ - begin_; }

 private:
  int64_t limit_, begin_, now_;
  int looks_ = 0;
};

/// Nanoseconds of a steady clock.
int64_t NowNs();

/// Whether, of late, more threads wanted to run than there are processors: /proc/loadavg, read at
/// most every few milliseconds by threads that spin, says so, or a spinning thread was interrupted.
/// OMP_WAIT_POLICY=passive: always.
bool IsCrowded();
/// For tests: what IsCrowded answers; -1: find out.
void PretendCrowded(int crowded);

}  // namespace infer
