#include "runtime/plan_ir/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace infer {

MemoryPlan PlanMemory(std::span<const BufferLife> buffers) {
  MemoryPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  auto rounded = [&](size_t i) {
    return (buffers[i].bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
  };
  std::map<int, int64_t> change;  // of the live sum, by launch
  for (size_t i = 0; i < buffers.size(); ++i) {
    change[buffers[i].first] += rounded(i);
    change[buffers[i].last + 1] -= rounded(i);
  }
  int64_t live = 0;
  for (const auto& [at, delta] : change) {
    live += delta;
    plan.lower_bound_bytes = std::max(plan.lower_bound_bytes, live);
  }
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    int64_t offset = 0;
    for (size_t p : placed) {
      if (buffers[p].last < buffers[i].first || buffers[i].last < buffers[p].first) continue;
      if (plan.offsets[p] >= offset + rounded(i)) break;
      offset = std::max(offset, plan.offsets[p] + rounded(p));
    }
    plan.offsets[i] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + rounded(i));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
        i);
  }
  return plan;
}

}  // namespace infer
