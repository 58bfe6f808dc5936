#pragma once
/// Commands for the queues of a device, in order. Barriers stand only where the bytes of two
/// commands meet and one of them writes. What the host cannot reach is staged.
#include <array>
#include <deque>

#include "runtime/vulkan/record/activity.h"
#include "runtime/vulkan/record/marks.h"
#include "runtime/vulkan/record/order.h"
#include "runtime/vulkan/record/staging.h"
#include "runtime/vulkan/record/timeline.h"

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
      : gpu(g),
        allocator(std::make_shared<Allocator>(g)),
        activity(std::make_shared<ActivityLog>(g)),
        pipelines(std::move(g)) {}
  std::shared_ptr<Gpu> gpu;
  std::shared_ptr<Allocator> allocator;
  std::shared_ptr<ActivityLog> activity;
  Pipelines pipelines;
};

/// How many workgroups a dispatch has, and what they come to.
struct Extent {
  std::array<uint32_t, 3> groups = {1, 1, 1};
  int64_t rounds = 1;  ///< of the loops of an invocation
  /// Loops of all invocations, of workgroups of 64.
  int64_t work() const { return int64_t{64} * groups[0] * groups[1] * groups[2] * rounds; }
};

/// What a view of this device lies in.
inline Memory& MemoryOf(const BufferView& view) { return static_cast<Memory&>(*view.memory); }

class VulkanRecording;

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
                  const Extent& extent);

  bool keeps_recordings() const override { return true; }
  Status BeginRecording() override;
  Result<std::shared_ptr<RecordedCommands>> EndRecording() override;
  Status Replay(const std::shared_ptr<RecordedCommands>& recording) override;
  CommandInfo commands() const override { return commands_; }

 private:
  VulkanEncoder(std::shared_ptr<DeviceParts> parts, std::shared_ptr<Timeline> timeline)
      : parts_(std::move(parts)),
        timeline_(std::move(timeline)),
        marks_(parts_->gpu),
        activity_(parts_->gpu, parts_->activity, timeline_),
        staging_(parts_->allocator) {}
  /// The queue for a copy of so many bytes, by way of staging memory of that kind.
  QueueKind QueueFor(MemoryKind kind, int64_t bytes) const;
  /// The batch that is being recorded, for that queue. What is handed to another queue than what is
  /// before it waits for that.
  Result<Batch*> Open(QueueKind queue = QueueKind::kCompute);
  /// Hands it over.
  Status Flush();
  /// Before it is handed over: Cancelled where the run is to stop, now or while the device ends
  /// what it has in hand.
  Status AwaitTurn(const Batch& batch);
  /// One behind the other, as one call.
  Status Hand(std::span<const std::unique_ptr<Batch>> batches);
  /// Gives batches that have ended back to be recorded again.
  Status Recycle(bool wait);
  /// All that was handed over has ended, and nothing waits to be.
  bool IsIdle() const;
  /// Where the host may write to the memory itself.
  bool MayWrite(Memory& memory) const;
  Status CopyBytes(const Range& to, const Range& from, QueueKind queue);
  /// Staging memory of the recording, or of the open batch.
  Result<Stage> NewStage(MemoryKind kind, int64_t bytes);
  /// What was recorded is handed over this once.
  void GiveUpRecording();
  Status UploadStaged(const BufferView& to, const std::byte* from);
  /// Upload and Download while a recording is handed over again.
  Status Refill(const BufferView& view, const std::byte* from, std::byte* to);

  std::shared_ptr<DeviceParts> parts_;
  std::shared_ptr<Timeline> timeline_;
  Marks marks_;
  ActivityWriter activity_;
  Staging staging_;
  Order order_;
  std::unique_ptr<Batch> open_;
  std::deque<std::unique_ptr<Batch>> under_way_;
  std::vector<std::unique_ptr<Batch>> spare_;
  std::vector<PendingDownload> downloads_;      // since the last Submit
  std::shared_ptr<VulkanRecording> recording_;  // that is being made
  std::shared_ptr<VulkanRecording> replayed_;   // that the next Submit hands over
  size_t next_refill_ = 0;                      // of its copies
  std::deque<uint64_t> long_;                   // submissions of much work that may be under way
  QueueKind last_queue_ = QueueKind::kCompute;  // to which something was handed
  CommandInfo commands_;
};

}  // namespace infer::vulkan
