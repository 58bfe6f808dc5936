/// Laws of the memory plan over random lifetimes: buffers alive together never overlap, offsets are
/// aligned, the arena is no smaller than the lower bound and holds every buffer.
#include "runtime/plan_ir/memory_plan.h"

#include <gtest/gtest.h>

#include "lib/support/random.h"

namespace infer {
namespace {

TEST(MemoryPlan, Empty) {
  const MemoryPlan plan = PlanMemory({});
  EXPECT_EQ(plan.arena_bytes, 0);
  EXPECT_EQ(plan.lower_bound_bytes, 0);
}

TEST(MemoryPlan, ChainNeedsTwoNeighbours) {
  const std::vector<BufferLife> lives = {{640, 0, 1}, {1280, 1, 2}, {640, 2, 3}, {64, 3, 4}};
  const MemoryPlan plan = PlanMemory(lives);
  EXPECT_EQ(plan.lower_bound_bytes, 1920);
  EXPECT_EQ(plan.arena_bytes, 1920);
}

TEST(MemoryPlan, RandomLifetimes) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    std::vector<BufferLife> lives(random.Below(60));
    int64_t sum = 0;
    for (BufferLife& b : lives) {
      b.bytes = random.Below(5000);
      b.first = static_cast<int>(random.Below(40));
      b.last = b.first + static_cast<int>(random.Below(10));
      sum += (b.bytes + 63) / 64 * 64;
    }
    const MemoryPlan plan = PlanMemory(lives);
    EXPECT_LE(plan.lower_bound_bytes, plan.arena_bytes) << "seed " << seed;
    EXPECT_LE(plan.arena_bytes, sum) << "seed " << seed;
    for (size_t i = 0; i < lives.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % kMemoryAlignment, 0);
      EXPECT_LE(plan.offsets[i] + lives[i].bytes, plan.arena_bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
        const bool apart = plan.offsets[i] + lives[i].bytes <= plan.offsets[j] ||
                           plan.offsets[j] + lives[j].bytes <= plan.offsets[i];
        EXPECT_TRUE(!together || apart || lives[i].bytes == 0 || lives[j].bytes == 0)
            << "seed " << seed << ": buffers " << i << " and " << j << " overlap";
      }
    }
  }
}

}  // namespace
}  // namespace infer
