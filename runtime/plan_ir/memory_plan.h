#pragma once
/// Offsets for buffers whose lifetimes are known. Greedy by size: largest first, each at the lowest
/// offset that no buffer alive at the same time covers (Pisarchyk, Lee: "Efficient Memory
/// Management for Deep Neural Net Inference", arXiv:2001.03288, "greedy by size for offsets").
/// Where that misses the lower bound three other orders are tried: by the largest sum that a buffer
/// is part of, by length of life, by time.
#include <cstdint>
#include <span>
#include <vector>

namespace infer {

struct BufferLife {
  int64_t bytes = 0;
  int first = 0, last = 0;  ///< launches in which it is alive, inclusive
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  ///< multiples of kMemoryAlignment
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;  ///< largest sum of sizes alive at once
};

inline constexpr int64_t kMemoryAlignment = 64;

/// The first order only.
MemoryPlan PlanBySize(std::span<const BufferLife> buffers);
MemoryPlan PlanMemory(std::span<const BufferLife> buffers);

}  // namespace infer
