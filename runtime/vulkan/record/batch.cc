#include "runtime/vulkan/record/batch.h"

namespace infer::vulkan {
namespace {

constexpr uint32_t kSetsOfAPool = 64, kBuffersOfASet = 6;

}  // namespace

Batch::~Batch() {
  if (gpu_->forked()) return;
  const VolkDeviceTable& vk = gpu_->vk();
  for (const VkDescriptorPool pool : sets_)
    vk.vkDestroyDescriptorPool(gpu_->device(), pool, nullptr);
  if (pool_) vk.vkDestroyCommandPool(gpu_->device(), pool_, nullptr);
}

Status Batch::Make() {
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  pool.queueFamilyIndex = gpu_->family(queue_);
  INFER_TRY(gpu_->Check(gpu_->vk().vkCreateCommandPool(gpu_->device(), &pool, nullptr, &pool_),
                        "vkCreateCommandPool"));
  VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  return gpu_->Check(gpu_->vk().vkAllocateCommandBuffers(gpu_->device(), &info, &commands_),
                     "vkAllocateCommandBuffers");
}

Status Batch::Begin(bool once) {
  const VolkDeviceTable& vk = gpu_->vk();
  if (!pool_) {
    INFER_TRY(Make());
  } else {
    for (const VkDescriptorPool pool : sets_) vk.vkResetDescriptorPool(gpu_->device(), pool, 0);
    INFER_TRY(gpu_->Check(vk.vkResetCommandPool(gpu_->device(), pool_, 0), "vkResetCommandPool"));
  }
  dispatches = 0;
  work = 0;
  sets_used_ = 0;
  staged.clear();
  held.clear();
  VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  if (once) begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  return gpu_->Check(vk.vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer");
}

Status Batch::End() {
  return gpu_->Check(gpu_->vk().vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
}

Result<VkDescriptorPool> Batch::NewSetPool() {
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kSetsOfAPool * kBuffersOfASet};
  VkDescriptorPoolCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  info.maxSets = kSetsOfAPool;
  info.poolSizeCount = 1;
  info.pPoolSizes = &size;
  VkDescriptorPool pool = VK_NULL_HANDLE;
  INFER_TRY(gpu_->Check(gpu_->vk().vkCreateDescriptorPool(gpu_->device(), &info, nullptr, &pool),
                        "vkCreateDescriptorPool"));
  return pool;
}

Result<VkDescriptorSet> Batch::NewSet(const Pipeline& pipeline) {
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorSetCount = 1;
  info.pSetLayouts = &pipeline.set;
  for (;;) {
    const bool fresh = sets_used_ == sets_.size();
    if (fresh) {
      INFER_ASSIGN(const VkDescriptorPool pool, NewSetPool());
      sets_.push_back(pool);
    }
    info.descriptorPool = sets_[sets_used_];
    VkDescriptorSet set = VK_NULL_HANDLE;
    const VkResult result = gpu_->vk().vkAllocateDescriptorSets(gpu_->device(), &info, &set);
    if (result == VK_SUCCESS) return set;
    const bool full = result == VK_ERROR_OUT_OF_POOL_MEMORY || result == VK_ERROR_FRAGMENTED_POOL;
    if (fresh || !full) return gpu_->Check(result, "vkAllocateDescriptorSets");
    ++sets_used_;
  }
}

}  // namespace infer::vulkan
