#include "runtime/vulkan/device/pretend.h"

#include <algorithm>
#include <cstdio>

#include "lib/support/strings.h"
#include "runtime/vulkan/device/pretended_device.h"

namespace infer::vulkan {

std::shared_ptr<const Pretence> Pretence::Of(const VulkanOptions& options) {
  return options.pretend.empty() ? nullptr : std::make_shared<const Pretence>(options);
}

Pretence::Pretence(const VulkanOptions& options) : options_(options) {}

void Pretence::Change(VkPhysicalDeviceProperties& properties) const {
  properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  VkPhysicalDeviceLimits& limits = properties.limits;
  const auto at_most = [](uint32_t& limit, uint32_t most) { limit = std::min(limit, most); };
  at_most(limits.maxStorageBufferRange, uint32_t{1} << 27);
  at_most(limits.maxComputeSharedMemorySize, 16384);
  at_most(limits.maxComputeWorkGroupInvocations, 128);
  at_most(limits.maxPushConstantsSize, 128);
  for (uint32_t& count : limits.maxComputeWorkGroupCount) at_most(count, 65535);
  limits.minStorageBufferOffsetAlignment = 64;
  limits.nonCoherentAtomSize = PretendedDevice::kAtom;
}

void Pretence::Change(std::vector<VkQueueFamilyProperties>& families) const {
  // Clocks are those of the queue that there is.
  VkQueueFamilyProperties compute = families.front();
  for (const VkQueueFamilyProperties& f : families)
    if (f.queueFlags & VK_QUEUE_COMPUTE_BIT) compute = f;
  compute.queueFlags = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
  compute.queueCount = 1;
  VkQueueFamilyProperties transfer = compute;
  transfer.queueFlags = VK_QUEUE_TRANSFER_BIT;
  transfer.queueCount = kTransferQueues;
  families = {compute, transfer};
}

void Pretence::Change(VkPhysicalDeviceMemoryProperties& memory) const {
  const VkDeviceSize most = VkDeviceSize{4} << 30;
  memory = {};
  memory.memoryHeapCount = 2;
  memory.memoryHeaps[0] = {
      std::min<VkDeviceSize>(static_cast<VkDeviceSize>(options_.memory_bytes), most),
      VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  memory.memoryHeaps[1] = {most, 0};
  memory.memoryTypeCount = PretendedDevice::kTypes;
  memory.memoryTypes[PretendedDevice::kLocal] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
  memory.memoryTypes[PretendedDevice::kHost] = {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, 1};
  memory.memoryTypes[PretendedDevice::kCached] = {
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 1};
}

void Pretence::Install(VolkDeviceTable& table, VkPhysicalDevice physical, VkDevice device,
                       VkQueue queue, uint32_t family) const {
  auto report = options_.on_message;
  if (!report)
    report = [](std::string_view m) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(m.size()), m.data());
    };
  PretendedDevice::Install(table, {.physical = physical,
                                   .device = device,
                                   .queue = queue,
                                   .family = family,
                                   .local_bytes = options_.memory_bytes,
                                   .report = std::move(report)});
}

void Pretence::Release(VkDevice device) { PretendedDevice::Release(device); }

}  // namespace infer::vulkan
