#pragma once
/// The Vulkan loader and an instance, and what drivers say of their devices.
#include <volk.h>

#include <memory>
#include <vector>

#include "lib/support/fork.h"
#include "runtime/vulkan/device/pretend.h"
#include "runtime/vulkan/options.h"

namespace infer::vulkan {

/// Name of a result for messages: "VK_ERROR_DEVICE_LOST".
std::string_view NameOf(VkResult result);
/// ResourceExhausted for want of memory, else Internal; `doing` opens the message: "vkQueueSubmit".
/// A lost device is Code::kResource, too: the run fails by the machine's fault, not ours.
Status StatusOf(VkResult result, std::string_view doing);

/// What the driver says of a device, or what is pretended of it.
struct PhysicalFacts {
  VkPhysicalDeviceProperties properties = {};
  VkPhysicalDeviceMemoryProperties memory = {};
  std::vector<VkQueueFamilyProperties> families = {};
};
/// Bytes of each heap that the driver leaves this process now, by VK_EXT_memory_budget; empty where
/// the device does not have it.
std::vector<int64_t> FreeBytesOfHeaps(VkPhysicalDevice device);
/// Whether its queues copy and do nothing else.
bool CopiesOnly(const VkQueueFamilyProperties& family);
/// `pretence` may be nullptr.
PhysicalFacts PhysicalFactsOf(VkPhysicalDevice device, const Pretence* pretence);

class Instance {
 public:
  /// Unsupported says which of loader, driver and validation layer is missing.
  static Result<std::shared_ptr<const Instance>> Make(const VulkanOptions& options);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// In the driver's order; never empty.
  const std::vector<VkPhysicalDevice>& devices() const { return devices_; }
  /// nullptr where nothing is pretended.
  const Pretence* pretence() const { return pretence_.get(); }
  /// By device, with the one that `--device vulkan` takes.
  std::vector<VulkanDeviceInfo> Describe() const;
  /// Of options.device, or the best. Unsupported says why there is none.
  Result<VulkanDeviceInfo> Choose(int wanted) const;

 private:
  Instance() = default;
  Status FindDevices();
  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::function<void(std::string_view)> on_message_;
  std::vector<VkPhysicalDevice> devices_;
  std::shared_ptr<const Pretence> pretence_;
  const uint64_t forks_ = ForksSoFar();
};

/// Whether the device has the feature of VulkanFeatures() of this name.
bool HasFeature(VkPhysicalDevice device, std::string_view name);

}  // namespace infer::vulkan
