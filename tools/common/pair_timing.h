#pragma once
/// Times two forms of a model in turns. Shared by fuse --measure, the gate --min-speedup and the
/// measurement at the end of quantize.
#include <span>
#include <stop_token>

#include "lib/support/statistics.h"
#include "tools/common/report.h"

namespace infer {

/// One run of a program.
struct TimedRun {
  double wall_ms = 0;
  double cpu_ms = 0;         ///< of the processor, all threads of the process together
  bool interrupted = false;  ///< another process took the processor meanwhile
};
/// A run of either program, one right behind the other.
struct RunPair {
  TimedRun a, b;
};
/// The times of both runs, pair by pair.
struct PairTimes {
  std::vector<double> a_ms, b_ms;
};
/// The times of pairs that nobody interrupted, where there are enough of them. Else those of all:
/// on one lane the processor's time, which others do not lengthen, on more the wall's.
PairTimes ComparableTimes(std::span<const RunPair> pairs, int lanes);

/// Medians with 95 % intervals; ratio is b / a, pair by pair.
struct PairTiming {
  Summary a, b, ratio;
  MemoryInfo memory_a, memory_b;  ///< as planned for these inputs
};
Result<PairTiming> TimePair(const Program& a, const Program& b, const std::vector<Datum>& inputs,
                            const std::stop_token& stop);

/// The times by the names `a` and `b`, and their ratio.
Json ToJson(const PairTiming& t, const char* a, const char* b);
/// The same as before_ms and after_ms, with the memory of both.
Json ToJson(const PairTiming& t);

}  // namespace infer
