#pragma once
/// The state of a pretended device (device/pretend.h), and the functions that stand in for the
/// driver's.
#include <volk.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

namespace infer::vulkan {

/// What is there in truth.
struct RealDevice {
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  uint32_t family = 0;
  int64_t local_bytes = 0;  ///< that may be allocated of the device's own memory
  std::function<void(std::string_view)> report = {};
};

class PretendedDevice {
 public:
  /// In bytes: what flushes must be aligned to.
  static constexpr VkDeviceSize kAtom = 256;
  /// Types of memory.
  static constexpr uint32_t kLocal = 0, kHost = 1, kCached = 2, kTypes = 3;

  static void Install(VolkDeviceTable& table, RealDevice real);
  static void Release(VkDevice device);
  static PretendedDevice& Of(VkDevice device);
  static PretendedDevice& Of(VkCommandBuffer commands);

  PretendedDevice(RealDevice real, const VolkDeviceTable& table);

  // Queues ---------------------------------------------------------------------------------------
  VkQueue Queue(uint32_t family, uint32_t index);
  struct FakeQueue;
  static VkResult Submit(FakeQueue& queue, const VkSubmitInfo& info);
  VkResult Wait(const VkSemaphoreWaitInfo& info, uint64_t timeout);
  VkResult Counter(VkSemaphore semaphore, uint64_t* value);
  VkResult WaitIdle();
  VkResult CreatePool(VkCommandPoolCreateInfo info, VkCommandPool* pool);
  void DestroyPool(VkCommandPool pool);
  VkResult AllocateCommands(const VkCommandBufferAllocateInfo& info, VkCommandBuffer* commands);
  /// Of a command, on whichever queue it was recorded for.
  void CheckCopy(VkCommandBuffer commands, VkBuffer from, VkBuffer to);
  void CheckCompute(VkCommandBuffer commands, VkPipelineStageFlags stages);

  // Memory ---------------------------------------------------------------------------------------
  VkResult CreateBuffer(VkBufferCreateInfo info, VkBuffer* buffer);
  void DestroyBuffer(VkBuffer buffer);
  VkResult Allocate(VkMemoryAllocateInfo info, VkDeviceMemory* memory);
  void Free(VkDeviceMemory memory);
  VkResult Map(VkDeviceMemory memory, void** data);
  /// What the host wrote, to the device; or the other way round.
  VkResult Sync(const VkMappedMemoryRange& range, bool flush);

  const VolkDeviceTable& real() const { return real_; }

 private:
  /// A submission that waits to be needed.
  struct Pending {
    std::vector<VkCommandBuffer> commands;
    std::vector<std::pair<VkSemaphore, uint64_t>> waits, signals;
    std::vector<VkPipelineStageFlags> stages;
  };
  struct Block {
    uint32_t type = 0;
    VkDeviceSize bytes = 0;
    std::byte* mapped = nullptr;       // the driver's
    std::vector<std::byte> host = {};  // what the host sees of it
  };
  static Pending CopyOf(const VkSubmitInfo& info);
  /// Submits what signals the semaphore up to this value, and what that needs.
  VkResult Need(VkSemaphore semaphore, uint64_t value);
  VkResult NeedAll();
  VkResult Run(const Pending& pending);
  void Report(std::string_view what) const { facts_.report(what); }

  RealDevice facts_;
  VolkDeviceTable real_;
  uint32_t real_types_[kTypes] = {};
  std::recursive_mutex mutex_;
  std::vector<std::unique_ptr<FakeQueue>> queues_;
  int polls_ = 0;
  std::map<VkCommandPool, uint32_t> pools_;  // whose family
  std::map<VkCommandPool, std::vector<VkCommandBuffer>> buffers_of_;
  std::set<VkBuffer> exclusive_;
  std::map<VkDeviceMemory, Block> blocks_;
  int64_t local_bytes_ = 0;
};

struct PretendedDevice::FakeQueue {
  PretendedDevice* device;
  uint32_t family;
  std::deque<Pending> pending;
};

}  // namespace infer::vulkan
