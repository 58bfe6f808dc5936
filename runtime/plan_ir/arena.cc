#include "runtime/plan_ir/arena.h"

#include <algorithm>

namespace infer {
namespace {

/// Launches between which each buffer is alive; {.., -1}: no launch uses it.
std::vector<std::pair<int, int>> LivesOf(const ShapePlan& plan) {
  std::vector<std::pair<int, int>> range(plan.buffers.size(), {INT32_MAX, -1});
  for (size_t l = 0; l < plan.launches.size(); ++l)
    for (int b : plan.launches[l].args) {
      if (b < 0) continue;
      auto& [first, last] = range[static_cast<size_t>(b)];
      first = std::min(first, static_cast<int>(l));
      last = std::max(last, static_cast<int>(l));
    }
  return range;
}

}  // namespace

void PlanArena(ShapePlan& plan) {
  const auto range = LivesOf(plan);
  for (const MemorySpace space : {MemorySpace::kHost, MemorySpace::kDevice}) {
    std::vector<BufferLife> lives;
    std::vector<size_t> which;
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      const PlannedBuffer& buffer = plan.buffers[b];
      if (buffer.space != space || buffer.kind != PlannedBuffer::Kind::kArena ||
          range[b].second < 0)
        continue;
      lives.push_back({buffer.bytes, range[b].first, range[b].second});
      which.push_back(b);
    }
    const MemoryPlan memory = PlanMemory(lives);
    for (size_t i = 0; i < which.size(); ++i) plan.buffers[which[i]].offset = memory.offsets[i];
    if (space == MemorySpace::kDevice) {
      plan.memory.device_bytes = memory.arena_bytes;
    } else {
      plan.memory.arena_bytes = memory.arena_bytes;
      plan.memory.lower_bound_bytes = memory.lower_bound_bytes;
    }
  }
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].kind == PlannedBuffer::Kind::kConstant && range[b].second >= 0)
      plan.memory.weight_bytes += plan.buffers[b].bytes;
}

}  // namespace infer
