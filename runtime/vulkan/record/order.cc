#include "runtime/vulkan/record/order.h"

namespace infer::vulkan {
namespace {

bool Meet(std::span<const Range> a, const std::vector<Range>& b) {
  for (const Range& x : a)
    for (const Range& y : b)
      if (x.buffer == y.buffer && x.begin < y.end && y.begin < x.end) return true;
  return false;
}

}  // namespace

void AddBarrier(const VolkDeviceTable& vk, VkCommandBuffer commands, QueueKind queue) {
  VkPipelineStageFlags stages = VK_PIPELINE_STAGE_TRANSFER_BIT;
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  if (queue == QueueKind::kCompute) {
    stages |= VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    barrier.srcAccessMask |= VK_ACCESS_SHADER_WRITE_BIT;
    barrier.dstAccessMask |= VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
  }
  vk.vkCmdPipelineBarrier(commands, stages, stages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

void Order::Next(const VolkDeviceTable& vk, VkCommandBuffer commands, QueueKind queue,
                 std::span<const Range> reads, std::span<const Range> writes) {
  if (is_unknown_ || Meet(reads, writes_) || Meet(writes, writes_) || Meet(writes, reads_)) {
    AddBarrier(vk, commands, queue);
    Cleared();
  }
  reads_.insert(reads_.end(), reads.begin(), reads.end());
  writes_.insert(writes_.end(), writes.begin(), writes.end());
}

}  // namespace infer::vulkan
