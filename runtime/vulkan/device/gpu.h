#pragma once
/// A logical device: its functions, its queue, its limits. Shared by all that is made of it.
#include <atomic>
#include <mutex>

#include "runtime/vulkan/device/instance.h"

namespace infer::vulkan {

class Gpu {
 public:
  static Result<std::shared_ptr<Gpu>> Make(const VulkanOptions& options);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  VkDevice device() const { return device_; }
  /// The functions of this device, called without the loader's dispatch.
  const VolkDeviceTable& vk() const { return vk_; }
  const VulkanDeviceInfo& info() const { return info_; }
  const VulkanOptions& options() const { return options_; }
  const VkPhysicalDeviceProperties& properties() const { return properties_; }
  const VkPhysicalDeviceMemoryProperties& memory() const { return memory_; }
  uint32_t family() const { return family_; }
  /// In bytes, of offsets that the host flushes.
  int64_t flush_alignment() const { return flush_alignment_; }
  /// Bits of the queue's timestamps, 0: it has none; and how many ns a tick takes.
  uint32_t tick_bits() const { return tick_bits_; }
  double tick_ns() const { return tick_ns_; }
  /// Whether a feature of VulkanFeatures() may be used.
  bool Has(std::string_view feature) const;

  /// Submissions of several threads, one after the other.
  VkResult Submit(const VkSubmitInfo& submit);
  /// Of a call that may have lost the device, or that a test lets fail instead.
  bool Fails(VulkanCall call) const { return options_.fails && options_.fails(call); }
  Status Check(VkResult result, std::string_view doing);
  /// The driver gave the device up: nothing made of it works any more.
  bool lost() const { return lost_; }

 private:
  Gpu() = default;
  Status MakeDevice();
  std::shared_ptr<const Instance> instance_;
  VulkanOptions options_;
  VulkanDeviceInfo info_;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VolkDeviceTable vk_ = {};
  VkPhysicalDeviceProperties properties_ = {};
  VkPhysicalDeviceMemoryProperties memory_ = {};
  uint32_t family_ = 0;
  int64_t flush_alignment_ = 1;
  uint32_t tick_bits_ = 0;
  double tick_ns_ = 1;
  VkQueue queue_ = VK_NULL_HANDLE;
  std::mutex queue_mutex_;
  std::atomic<bool> lost_ = false;
};

}  // namespace infer::vulkan
