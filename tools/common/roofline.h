#pragma once
/// What this machine can do at best, measured: multiply-add peaks and read bandwidth per level of
/// the memory hierarchy. The yardstick for the times of a profile.
#include <string>
#include <vector>

#include "runtime/api/program.h"
#include "tools/common/report.h"

namespace infer {

/// A level of the memory hierarchy, as the lanes together see it.
struct MemoryLevel {
  std::string name;   ///< "L1", "L2", "L3", "memory"
  int64_t bytes = 0;  ///< what it holds; of memory: 0
  double gb_per_s = 0;
};

struct Roofline {
  int lanes = 0;
  double f32_gflops = 0;  ///< fused multiply-adds of the widest vectors
  double int8_gops = 0;   ///< u8 x s8 products summed exactly in s32
  std::vector<MemoryLevel> levels;
  double measured_ms = 0;  ///< what the measurement took

  /// The first level that holds so many bytes.
  const MemoryLevel& LevelOf(int64_t bytes) const;
  /// The least time of a step, in ms: the longer of its operations at peak and its traffic, where
  /// constants come from the level that holds `program_bytes`, the rest from the one that holds
  /// what the step itself moves. Operations are those of the direct algorithm, so that Winograd's
  /// convolution can take less.
  double FloorMs(const StepInfo& step, const Cost& cost, int64_t program_bytes) const;
  /// "FMA 178 GFLOP/s, int8 712 GOP/s, L1 250, L2 120, L3 30, memory 12 GB/s".
  std::string ToString() const;
};

/// Of `lanes` threads at once, taken from the lane budget. Measured on the first call for this
/// number (less than 0.5 s on an idle machine), then kept for the process.
const Roofline& MeasuredRoofline(int lanes);

Json ToJson(const Roofline& r);

}  // namespace infer
