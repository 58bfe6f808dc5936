#include "runtime/vulkan/record/marks.h"

#include <algorithm>

namespace infer::vulkan {

Marks::~Marks() {
  if (gpu_->forked()) return;
  for (const VkQueryPool pool : pools_)
    gpu_->vk().vkDestroyQueryPool(gpu_->device(), pool, nullptr);
}

Result<size_t> Marks::Add(VkCommandBuffer commands) {
  if (gpu_->tick_bits() == 0) return Unsupported("the queue of this device has no timestamps");
  const VolkDeviceTable& vk = gpu_->vk();
  const size_t pool = count_ / kOfAPool;
  if (pool == pools_.size()) {
    VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = kOfAPool;
    VkQueryPool made = VK_NULL_HANDLE;
    INFER_TRY(gpu_->Check(vk.vkCreateQueryPool(gpu_->device(), &info, nullptr, &made),
                          "vkCreateQueryPool"));
    pools_.push_back(made);
  }
  const auto at = static_cast<uint32_t>(count_ % kOfAPool);
  if (at == 0) vk.vkCmdResetQueryPool(commands, pools_[pool], 0, kOfAPool);
  constexpr VkPipelineStageFlags kStages =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                          VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  vk.vkCmdPipelineBarrier(commands, kStages, kStages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
  vk.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pools_[pool], at);
  return count_++;
}

Result<std::vector<double>> Marks::Take() {
  std::vector<uint64_t> ticks(count_);
  for (size_t begin = 0; begin < count_; begin += kOfAPool) {
    const size_t n = std::min<size_t>(kOfAPool, count_ - begin);
    INFER_TRY(gpu_->Check(gpu_->vk().vkGetQueryPoolResults(
                              gpu_->device(), pools_[begin / kOfAPool], 0, static_cast<uint32_t>(n),
                              n * sizeof(uint64_t), &ticks[begin], sizeof(uint64_t),
                              VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                          "vkGetQueryPoolResults"));
  }
  count_ = 0;
  // The counter may have fewer bits, and run over.
  const uint32_t bits = gpu_->tick_bits();
  const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  if (!has_first_ && !ticks.empty()) {
    first_ = ticks[0];
    has_first_ = true;
  }
  std::vector<double> ms;
  for (const uint64_t t : ticks)
    ms.push_back(static_cast<double>((t - first_) & mask) * gpu_->tick_ns() / 1e6);
  return ms;
}

}  // namespace infer::vulkan
