#pragma once
/// Commands for the queue of a device, in order. Barriers stand only where the bytes of two
/// commands meet and one of them writes. What the host cannot reach is staged.
#include <array>
#include <deque>

#include "runtime/vulkan/memory/allocator.h"
#include "runtime/vulkan/record/marks.h"
#include "runtime/vulkan/record/pipelines.h"

namespace infer::vulkan {

struct Binding {
  BufferView view;
  bool written = false;
};

/// Push constants as they are passed on.
struct PushData {
  std::array<uint32_t, kPushBytes / 4> words = {};
};

/// What is made of a device, and goes before it.
struct DeviceParts {
  explicit DeviceParts(std::shared_ptr<Gpu> g)
      : gpu(g), allocator(std::make_shared<Allocator>(g)), pipelines(std::move(g)) {}
  std::shared_ptr<Gpu> gpu;
  std::shared_ptr<Allocator> allocator;
  Pipelines pipelines;
};

class VulkanEncoder final : public Encoder {
 public:
  static Result<std::unique_ptr<Encoder>> Make(std::shared_ptr<DeviceParts> parts);
  /// Waits for what it has submitted.
  ~VulkanEncoder() override;

  Status Upload(const BufferView& to, const std::byte* from) override;
  Status Download(std::byte* to, const BufferView& from) override;
  Status Copy(const BufferView& to, const BufferView& from) override;
  Result<std::shared_ptr<Completion>> Submit() override;
  Result<size_t> Mark() override;
  Result<std::vector<double>> TakeMarks() override { return marks_.Take(); }
  /// `bindings` are the shader's storage buffers in order.
  Status Dispatch(const Pipeline& pipeline, std::span<const Binding> bindings, const PushData& push,
                  const std::array<uint32_t, 3>& groups);

 private:
  class Ended;
  struct Batch {
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    std::vector<VkDescriptorPool> sets;
    size_t sets_used = 0;  // pools that are full, before the one in use
    std::vector<std::shared_ptr<Memory>> staged;
    uint64_t value = 0;  // of the timeline, when it has ended
    int dispatches = 0;
  };
  struct Range {
    VkBuffer buffer;
    int64_t begin, end;
  };
  struct PendingDownload {
    std::byte* to;
    std::shared_ptr<Memory> from;
    int64_t bytes;
  };
  struct Timeline;

  VulkanEncoder(std::shared_ptr<DeviceParts> parts, std::shared_ptr<Timeline> timeline)
      : parts_(std::move(parts)), timeline_(std::move(timeline)), marks_(parts_->gpu) {}
  /// The batch that is being recorded.
  Result<Batch*> Open();
  Status Make(Batch& batch);
  Status Flush();
  /// Gives batches that have ended back to be recorded again.
  Status Recycle(bool wait);
  void Free(Batch& batch);
  Result<VkDescriptorSet> NewSet(Batch& batch, const Pipeline& pipeline);
  Result<VkDescriptorPool> NewSetPool();
  /// A barrier where the ranges meet what runs before them.
  void Order(Batch& batch, std::span<const Range> reads, std::span<const Range> writes);
  Status CopyBytes(const Range& to, const Range& from);
  /// A staging buffer for the open batch, one that waits where there is one.
  Result<std::shared_ptr<Memory>> Stage(MemoryKind kind, int64_t bytes);
  std::shared_ptr<Memory> TakeSpareStage(MemoryKind kind, int64_t bytes);

  std::shared_ptr<DeviceParts> parts_;
  std::shared_ptr<Timeline> timeline_;
  Marks marks_;
  std::unique_ptr<Batch> open_;
  std::deque<std::unique_ptr<Batch>> under_way_;
  std::vector<std::unique_ptr<Batch>> spare_;
  std::vector<PendingDownload> downloads_;             // since the last Submit
  std::vector<Range> reads_, writes_;                  // since the last barrier
  int64_t staged_bytes_ = 0;                           // of batches that have not ended
  std::vector<std::shared_ptr<Memory>> spare_stages_;  // of batches that have
};

}  // namespace infer::vulkan
