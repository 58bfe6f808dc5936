/// Laws of the memory plan over random lifetimes: buffers alive together never overlap, offsets are
/// aligned, the arena is no smaller than the lower bound and holds every buffer.
#include "runtime/plan_ir/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

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

/// The same greedy choice, looking at every pair.
std::vector<int64_t> OffsetsByPairs(const std::vector<BufferLife>& lives) {
  const auto rounded = [&](size_t i) { return (lives[i].bytes + 63) / 64 * 64; };
  std::vector<size_t> order(lives.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lives[a].bytes > lives[b].bytes; });
  std::vector<int64_t> offsets(lives.size());
  for (size_t k = 0; k < order.size(); ++k) {
    const size_t i = order[k];
    std::vector<size_t> alive;
    for (size_t j = 0; j < k; ++j)
      if (lives[order[j]].first <= lives[i].last && lives[i].first <= lives[order[j]].last)
        alive.push_back(order[j]);
    std::stable_sort(alive.begin(), alive.end(),
                     [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
    int64_t offset = 0;
    for (size_t p : alive) {
      if (offsets[p] >= offset + rounded(i)) break;
      offset = std::max(offset, offsets[p] + rounded(p));
    }
    offsets[i] = offset;
  }
  return offsets;
}

TEST(MemoryPlan, FindsTheNeighboursThatAComparisonOfAllPairsFinds) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    // Long chains of short lives, with some that last: both ways of looking for neighbours.
    const int length = 1 + static_cast<int>(random.Below(600));
    const int longest = 1 + static_cast<int>(random.Below(seed % 3 == 0 ? 600 : 6));
    std::vector<BufferLife> lives(random.Below(700));
    for (BufferLife& b : lives) {
      b.bytes = random.Below(5) == 0 ? 0 : random.Below(3000);
      b.first = static_cast<int>(random.Below(static_cast<uint32_t>(length)));
      b.last = b.first + static_cast<int>(random.Below(static_cast<uint32_t>(longest)));
    }
    EXPECT_EQ(PlanBySize(lives).offsets, OffsetsByPairs(lives)) << "seed " << seed;
  }
}

/// Where the largest first misses the lower bound, another order may be nearer.
TEST(MemoryPlan, OtherOrdersNeverLoseAndSometimesWin) {
  int won = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    std::vector<BufferLife> lives(30);
    for (BufferLife& b : lives) {
      b.bytes = 64 * (1 + random.Below(40));
      b.first = static_cast<int>(random.Below(40));
      b.last = b.first + static_cast<int>(random.Below(10));
    }
    const int64_t by_size = PlanBySize(lives).arena_bytes, best = PlanMemory(lives).arena_bytes;
    EXPECT_LE(best, by_size) << "seed " << seed;
    won += best < by_size;
  }
  EXPECT_GT(won, 10);
}

}  // namespace
}  // namespace infer
