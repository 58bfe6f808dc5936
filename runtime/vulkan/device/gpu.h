#pragma once
/// A logical device: its functions, its queue, its limits. Shared by all that is made of it.
#include <array>
#include <atomic>
#include <mutex>
#include <optional>

#include "runtime/vulkan/device/instance.h"

namespace infer::vulkan {

/// The use of a queue. Uploads and downloads have a queue each: a download waits for the shaders
/// before it, and what is behind it on its queue waits with it. Where a device has fewer queues,
/// downloads, then uploads go to the queue of the shaders.
enum class QueueKind : uint8_t { kCompute, kUpload, kDownload };
constexpr size_t kQueueKinds = 3;

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
  const VkPhysicalDeviceProperties& properties() const { return facts_.properties; }
  const VkPhysicalDeviceMemoryProperties& memory() const { return facts_.memory; }
  /// Bytes that the driver leaves this process of a heap now; INT64_MAX where it does not say. Asks
  /// the driver.
  int64_t FreeBytes(uint32_t heap) const;
  uint32_t family(QueueKind queue) const { return OfKind(queue).family; }
  /// Whether it is no other kind's.
  bool HasQueue(QueueKind kind) const { return queues_[static_cast<size_t>(kind)].queue; }
  /// Whether uploads, at least, have a queue of their own.
  bool has_transfer_queue() const { return HasQueue(QueueKind::kUpload); }
  /// In bytes, of offsets that the host flushes.
  int64_t flush_alignment() const { return flush_alignment_; }
  /// Bits of the queue's timestamps, 0: it has none; and how many ns a tick takes.
  uint32_t tick_bits(QueueKind queue = QueueKind::kCompute) const {
    return facts_.families[family(queue)].timestampValidBits;
  }
  /// Whether the host may reset queries, as those of queues that only copy need it.
  bool resets_queries() const { return resets_queries_; }
  double tick_ns() const { return tick_ns_; }
  /// Whether a feature of VulkanFeatures() may be used.
  bool Has(std::string_view feature) const;

  /// A timeline semaphore, and what was last submitted to signal it.
  struct Counter {
    VkSemaphore semaphore = VK_NULL_HANDLE;
    uint64_t last = 0;
  };
  /// One that nobody uses, or a new one. They go with the device: Mesa 22.3 still touches a
  /// semaphore when the submission that signalled it is over.
  Result<Counter> TakeCounter();
  /// `reached`: all that was submitted to signal it has ended, and it may be used again.
  void GiveBack(Counter counter, bool reached);

  /// Submissions of several threads, one after the other.
  VkResult Submit(QueueKind queue, const VkSubmitInfo& submit);
  /// Of a call that may have lost the device, or that a test lets fail instead.
  bool Fails(VulkanCall call) const { return options_.fails && options_.fails(call); }
  Status Check(VkResult result, std::string_view doing);
  /// Nothing made of it works any more: the driver gave the device up, or it is the parent's.
  bool lost() const { return lost_ || forked(); }
  /// This process is a child of the one that opened the device: it has none of the driver's
  /// threads, and shares memory with its parent. No function of the driver may be called.
  bool forked() const { return ForksSoFar() != forks_; }
  /// ResourceExhausted with the reason where it is lost.
  Status CheckThere() const;

 private:
  struct Queue {
    uint32_t family = 0;
    VkQueue queue = VK_NULL_HANDLE;
    std::mutex mutex = {};
  };
  Gpu() = default;
  /// Families of queues, and how many of the second are opened.
  struct Families {
    uint32_t compute = 0, transfer = 0, transfer_queues = 0;
  };
  Families ChooseFamilies() const;
  Status MakeDevice(const Families& families);
  /// With the functions of its table.
  void OpenQueues(const Families& families);
  const Queue& OfKind(QueueKind kind) const {
    return queues_[HasQueue(kind) ? static_cast<size_t>(kind) : 0];
  }
  std::shared_ptr<const Instance> instance_;
  VulkanOptions options_;
  VulkanDeviceInfo info_;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VolkDeviceTable vk_ = {};
  PhysicalFacts facts_;
  int64_t flush_alignment_ = 1;
  double tick_ns_ = 1;
  bool resets_queries_ = false;
  std::array<Queue, kQueueKinds> queues_;  // by kind; the first is always there
  std::mutex counters_mutex_;
  std::vector<Counter> counters_, unfinished_;
  std::atomic<bool> lost_ = false;
  const uint64_t forks_ = ForksSoFar();
};

}  // namespace infer::vulkan
