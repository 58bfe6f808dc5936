#pragma once
/// A discrete GPU that is pretended on top of whatever device there is, so that a machine without
/// one can test what only such a device asks of us:
///
/// - two families of queues, one for transfers only, with two queues. Each runs nothing before
/// somebody waits for
///   it, so that a missing semaphore shows as wrong numbers;
/// - memory of the device that the host cannot map, and host memory that is not coherent: what is
///   not flushed or invalidated is not seen on the other side;
/// - the limits that Vulkan promises, and no more; a heap of as many bytes as a test says.
///
/// What no device with these rules would forgive is a message to options.on_message: copies of
/// buffers between families that do not share them, commands that a queue does not know, flushes
/// that are not aligned.
#include <volk.h>

#include <memory>
#include <vector>

#include "runtime/vulkan/options.h"

namespace infer::vulkan {

class Pretence {
 public:
  /// nullptr where options.pretend is "".
  static std::shared_ptr<const Pretence> Of(const VulkanOptions& options);
  explicit Pretence(const VulkanOptions& options);

  void Change(VkPhysicalDeviceProperties& properties) const;
  void Change(std::vector<VkQueueFamilyProperties>& families) const;
  void Change(VkPhysicalDeviceMemoryProperties& memory) const;

  /// Puts functions of its own into the table of a device, whose only queue is `queue`, of family
  /// `family`. Release goes before the device.
  void Install(VolkDeviceTable& table, VkPhysicalDevice physical, VkDevice device, VkQueue queue,
               uint32_t family) const;
  static void Release(VkDevice device);

  static constexpr uint32_t kComputeFamily = 0, kTransferFamily = 1, kTransferQueues = 2;

 private:
  VulkanOptions options_;
};

}  // namespace infer::vulkan
