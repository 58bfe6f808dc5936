#include "runtime/vulkan/device/gpu.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer::vulkan {
namespace {

bool Contains(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

std::vector<VkQueueFamilyProperties> Families(VkPhysicalDevice device) {
  uint32_t n = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(device, &n, nullptr);
  std::vector<VkQueueFamilyProperties> families(n);
  vkGetPhysicalDeviceQueueFamilyProperties(device, &n, families.data());
  return families;
}

/// A family of compute queues, one without graphics if there is one.
uint32_t ComputeFamily(const std::vector<VkQueueFamilyProperties>& families) {
  uint32_t best = 0;
  bool found = false;
  for (uint32_t i = 0; i < families.size(); ++i) {
    const VkQueueFlags flags = families[i].queueFlags;
    if (!(flags & VK_QUEUE_COMPUTE_BIT)) continue;
    if (!found || !(flags & VK_QUEUE_GRAPHICS_BIT)) best = i;
    found = true;
    if (!(flags & VK_QUEUE_GRAPHICS_BIT)) break;
  }
  return best;
}

}  // namespace

Result<std::shared_ptr<Gpu>> Gpu::Make(const VulkanOptions& options) {
  std::shared_ptr<Gpu> gpu(new Gpu);
  gpu->options_ = options;
  INFER_ASSIGN(gpu->instance_, Instance::Make(options));
  INFER_ASSIGN(gpu->info_, gpu->instance_->Choose(options.device));
  if (options.max_buffer_bytes > 0)
    gpu->info_.max_buffer_bytes = std::min(gpu->info_.max_buffer_bytes, options.max_buffer_bytes);
  gpu->physical_ = gpu->instance_->devices()[static_cast<size_t>(gpu->info_.index)];
  INFER_TRY(gpu->MakeDevice());
  return gpu;
}

Status Gpu::MakeDevice() {
  const auto families = Families(physical_);
  family_ = ComputeFamily(families);
  tick_bits_ = families[family_].timestampValidBits;
  vkGetPhysicalDeviceProperties(physical_, &properties_);
  flush_alignment_ = static_cast<int64_t>(properties_.limits.nonCoherentAtomSize);
  tick_ns_ = static_cast<double>(properties_.limits.timestampPeriod);
  vkGetPhysicalDeviceMemoryProperties(physical_, &memory_);
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  v12.timelineSemaphore = VK_TRUE;
  v12.storageBuffer8BitAccess = v12.shaderInt8 = Has("int8") ? VK_TRUE : VK_FALSE;
  VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12};
  v11.storageBuffer16BitAccess = Has("int16") ? VK_TRUE : VK_FALSE;
  VkPhysicalDeviceFeatures2 core{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v11};
  core.features.shaderInt16 = Has("int16") ? VK_TRUE : VK_FALSE;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &core};
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  INFER_TRY(StatusOf(vkCreateDevice(physical_, &info, nullptr, &device_), "vkCreateDevice"));
  volkLoadDeviceTable(&vk_, device_);
  vk_.vkGetDeviceQueue(device_, family_, 0, &queue_);
  return {};
}

Gpu::~Gpu() {
  if (!device_) return;
  vk_.vkDeviceWaitIdle(device_);
  vk_.vkDestroyDevice(device_, nullptr);
}

bool Gpu::Has(std::string_view feature) const {
  return Contains(info_.features, feature) && !Contains(options_.disable, feature);
}

VkResult Gpu::Submit(const VkSubmitInfo& submit) {
  if (Fails(VulkanCall::kSubmit)) return VK_ERROR_OUT_OF_HOST_MEMORY;
  const std::lock_guard lock(queue_mutex_);
  return vk_.vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE);
}

Status Gpu::Check(VkResult result, std::string_view doing) {
  if (result == VK_ERROR_DEVICE_LOST) lost_ = true;
  return StatusOf(result, doing);
}

}  // namespace infer::vulkan
