#include "runtime/plan_ir/arena.h"

#include <algorithm>

namespace infer {
void PlanArena(ShapePlan& plan) {
  const auto& range = plan.frame->lives;
  for (const MemorySpace space : {MemorySpace::kHost, MemorySpace::kDevice}) {
    std::vector<BufferLife> lives;
    std::vector<size_t> which;
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      PlannedBuffer& buffer = plan.buffers[b];
      if (buffer.space != space || buffer.kind != PlannedBuffer::Kind::kArena ||
          range[b].second < 0)
        continue;
      buffer.room = std::max(buffer.bytes, buffer.room);
      lives.push_back({buffer.room, range[b].first, range[b].second});
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
}

int64_t ConstantBytes(const ShapePlan& plan) {
  int64_t bytes = 0;
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].kind == PlannedBuffer::Kind::kConstant && plan.frame->lives[b].second >= 0)
      bytes += plan.buffers[b].bytes;
  return bytes;
}

}  // namespace infer
