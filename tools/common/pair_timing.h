#pragma once
/// Times two forms of a model in turns. Shared by fuse --measure and the gate --min-speedup.
#include <stop_token>

#include "lib/support/statistics.h"
#include "tools/common/report.h"

namespace infer {

/// Medians with 95 % intervals; ratio is b / a, pair by pair.
struct PairTiming {
  Summary a, b, ratio;
  MemoryInfo memory_a, memory_b;  ///< as planned for these inputs
};
Result<PairTiming> TimePair(const Program& a, const Program& b, const std::vector<Datum>& inputs,
                            const std::stop_token& stop);

}  // namespace infer
