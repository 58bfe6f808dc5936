#pragma once
/// A command buffer, and what its commands refer to.
#include <memory>
#include <vector>

#include "runtime/vulkan/memory/allocator.h"
#include "runtime/vulkan/record/pipelines.h"

namespace infer::vulkan {

class Batch {
 public:
  Batch(std::shared_ptr<Gpu> gpu, QueueKind queue) : gpu_(std::move(gpu)), queue_(queue) {}
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// Empties it, and begins to record; `once`: what will be submitted once only. Pre: its commands
  /// have ended.
  Status Begin(bool once);
  Status End();
  /// Lives as long as what is recorded.
  Result<VkDescriptorSet> NewSet(const Pipeline& pipeline);
  const VkCommandBuffer& commands() const { return commands_; }
  QueueKind queue() const { return queue_; }

  int dispatches = 0;
  int64_t work = 0;                             ///< of them, as Dispatch counts it
  uint64_t value = 0;                           ///< of the timeline, when it has ended
  std::vector<std::shared_ptr<Memory>> staged;  ///< to be used again when it has
  std::vector<std::shared_ptr<Memory>> held;    ///< to be let go when it has

 private:
  Status Make();
  Result<VkDescriptorPool> NewSetPool();

  std::shared_ptr<Gpu> gpu_;
  QueueKind queue_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  std::vector<VkDescriptorPool> sets_;
  size_t sets_used_ = 0;  // pools that are full, before the one in use
};

}  // namespace infer::vulkan
