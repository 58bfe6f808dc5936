#pragma once
/// Which processors slow each other, measured: a virtual machine may show two threads of one core
/// as two cores.
#include <span>
#include <vector>

#include "lib/support/status.h"

namespace infer::bench {

struct CorePair {
  int a = 0, b = 0;     ///< logical processors
  double slowdown = 1;  ///< time of fixed arithmetic on both at once / on one at a time
  /// Two threads of one core halve each other's throughput where both want the same unit.
  bool shares_core() const { return slowdown > 1.3; }
};

/// Every pair among the first eight of `cpus`; about 0.1 s each. Other load disturbs: the fastest
/// of several rounds counts. Io: a thread could not be pinned.
Result<std::vector<CorePair>> ProbeCores(std::span<const int> cpus);

}  // namespace infer::bench
