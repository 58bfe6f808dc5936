#pragma once
/// Watches the machine while something is measured: who else used the processors, whether they
/// became slower, how often we were put aside.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace infer::bench {

struct Watched {
  double seconds = 0;
  double own_cores = 0;     ///< processor time of this process / seconds
  double other_cores = -1;  ///< of everything else on the machine; < 0 where nobody says
  double stolen_cores = 0;  ///< of that, what a hypervisor took
  /// Fastest of some rounds of fixed arithmetic: what a throttled or shared core is slower in.
  double spin_before_ms = 0, spin_after_ms = 0;
  double mhz_before = 0, mhz_after = 0;  ///< 0 where the system does not say
  int64_t preemptions = 0;               ///< involuntary context switches
};

/// From the constructor to Finish. Both take some 10 ms for the fixed arithmetic.
class MachineWatch {
 public:
  MachineWatch();
  Watched Finish() const;

 private:
  struct Counters {
    std::chrono::steady_clock::time_point at;
    double busy_s = 0, stolen_s = 0, own_s = 0;
    int64_t preemptions = 0;
  };
  static Counters Now();
  double spin_ms_, mhz_;
  Counters start_;
};

/// Of fixed arithmetic that touches no memory, the fastest of `rounds`.
double SpinMs(int rounds = 9);

/// A processor that became slower by more than 3 %, or other processes that took more than a fifth
/// of a core.
std::vector<std::string> Warnings(const Watched& w);

}  // namespace infer::bench
