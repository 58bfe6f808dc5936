#include "runtime/vulkan/record/encoder.h"

#include <algorithm>
#include <utility>

#include "lib/support/stop.h"
#include "lib/support/strings.h"
#include "runtime/vulkan/record/recording.h"

namespace infer::vulkan {
namespace {

/// A submission that is made once holds so many dispatches at most: the device begins while the
/// host records.
constexpr int kMostDispatches = 64;
constexpr size_t kMostBindings = 8;
/// So many submissions of much work are handed over ahead: the device has the next one when one
/// ends, and a run that is stopped waits for no more.
constexpr size_t kMostLong = 2;

/// Writes a set of storage buffers.
class SetWriter {
 public:
  explicit SetWriter(VkDescriptorSet set) : set_(set) {}
  void Add(const Range& range) {
    buffers_[n_] = {range.buffer, static_cast<VkDeviceSize>(range.begin),
                    static_cast<VkDeviceSize>(range.end - range.begin)};
    writes_[n_] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    writes_[n_].dstSet = set_;
    writes_[n_].dstBinding = static_cast<uint32_t>(n_);
    writes_[n_].descriptorCount = 1;
    writes_[n_].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    writes_[n_].pBufferInfo = &buffers_[n_];
    ++n_;
  }
  void Write(const Gpu& gpu) const {
    gpu.vk().vkUpdateDescriptorSets(gpu.device(), static_cast<uint32_t>(n_), writes_.data(), 0,
                                    nullptr);
  }

 private:
  VkDescriptorSet set_;
  size_t n_ = 0;
  std::array<VkDescriptorBufferInfo, kMostBindings> buffers_;
  std::array<VkWriteDescriptorSet, kMostBindings> writes_;
};

}  // namespace

Result<std::unique_ptr<Encoder>> VulkanEncoder::Make(std::shared_ptr<DeviceParts> parts) {
  INFER_TRY(parts->gpu->CheckThere());
  INFER_ASSIGN(auto timeline, Timeline::Make(parts->gpu));
  return std::unique_ptr<Encoder>(new VulkanEncoder(std::move(parts), std::move(timeline)));
}

VulkanEncoder::~VulkanEncoder() {
  // Nothing it submitted may outlive what it recorded; a device that is lost runs nothing.
  if (timeline_->last > 0) static_cast<void>(timeline_->Wait(timeline_->last));
}

QueueKind VulkanEncoder::QueueFor(MemoryKind kind, int64_t bytes) const {
  const Gpu& gpu = *parts_->gpu;
  const QueueKind own = kind == MemoryKind::kUpload ? QueueKind::kUpload : QueueKind::kDownload;
  return gpu.HasQueue(own) && bytes >= gpu.options().transfer_bytes ? own : QueueKind::kCompute;
}

Result<Batch*> VulkanEncoder::Open(QueueKind queue) {
  if (open_ && open_->queue() == queue) return open_.get();
  INFER_TRY(Flush());
  INFER_TRY(Recycle(false));
  std::unique_ptr<Batch> batch;
  const auto of_queue = [&](const auto& b) { return b->queue() == queue; };
  const auto spare = std::find_if(spare_.begin(), spare_.end(), of_queue);
  if (spare != spare_.end() && !recording_) {
    batch = std::move(*spare);
    spare_.erase(spare);
  } else {
    batch = std::make_unique<Batch>(parts_->gpu, queue);
  }
  INFER_TRY(batch->Begin(!recording_));
  // A recording's first commands may come behind others of the same queue.
  const bool is_first = recording_ && recording_->pieces.empty();
  if (queue != last_queue_ && !is_first) order_.Cleared();
  open_ = std::move(batch);
  return open_.get();
}

Status VulkanEncoder::Recycle(bool wait) {
  if (wait && timeline_->last > 0) INFER_TRY(timeline_->Wait(timeline_->last));
  while (!under_way_.empty() && timeline_->Reached(under_way_.front()->value)) {
    staging_.TakeBack(*under_way_.front());
    spare_.push_back(std::move(under_way_.front()));
    under_way_.pop_front();
  }
  return {};
}

bool VulkanEncoder::IsIdle() const {
  return !open_ && (timeline_->last == 0 || timeline_->Reached(timeline_->last));
}

Status VulkanEncoder::AwaitTurn(const Batch& batch) {
  INFER_TRY(CheckStop());
  if (batch.work <= parts_->gpu->options().submission_work / 2) return {};
  while (!long_.empty() && timeline_->Reached(long_.front())) long_.pop_front();
  if (long_.size() >= kMostLong) {
    INFER_TRY(timeline_->Wait(long_.front()));
    INFER_TRY(CheckStop());
    long_.pop_front();
  }
  long_.push_back(timeline_->last + 1);
  return {};
}

Status VulkanEncoder::Hand(std::span<const std::unique_ptr<Batch>> batches) {
  Gpu& gpu = *parts_->gpu;
  for (const auto& batch : batches) {
    INFER_TRY(AwaitTurn(*batch));
    const uint64_t value = timeline_->last + 1;
    const bool waits = batch->queue() != last_queue_ && timeline_->last > 0;
    constexpr VkPipelineStageFlags kAll = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    values.waitSemaphoreValueCount = waits ? 1 : 0;
    values.pWaitSemaphoreValues = &timeline_->last;
    values.signalSemaphoreValueCount = 1;
    values.pSignalSemaphoreValues = &value;
    VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
    submit.waitSemaphoreCount = values.waitSemaphoreValueCount;
    submit.pWaitSemaphores = &timeline_->semaphore();
    submit.pWaitDstStageMask = &kAll;
    INFER_ASSIGN(const ActivityWriter::Around around, activity_.Next(batch->queue(), value));
    const std::array<VkCommandBuffer, 3> timed = {around.begin, batch->commands(), around.end};
    submit.commandBufferCount = around.begin ? 3 : 1;
    submit.pCommandBuffers = around.begin ? timed.data() : &batch->commands();
    submit.signalSemaphoreCount = 1;
    submit.pSignalSemaphores = &timeline_->semaphore();
    INFER_TRY(gpu.Check(gpu.Submit(batch->queue(), submit), "vkQueueSubmit"));
    batch->value = timeline_->last = value;
    last_queue_ = batch->queue();
    ++commands_.submissions;
  }
  return {};
}

Status VulkanEncoder::Flush() {
  if (!open_) return {};
  Gpu& gpu = *parts_->gpu;
  if (!downloads_.empty()) {
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    gpu.vk().vkCmdPipelineBarrier(open_->commands(), VK_PIPELINE_STAGE_TRANSFER_BIT,
                                  VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0,
                                  nullptr);
  }
  INFER_TRY(open_->End());
  INFER_TRY(Hand(std::span(&open_, 1)));
  if (recording_)
    recording_->pieces.push_back(std::move(open_));
  else
    under_way_.push_back(std::move(open_));
  return {};
}

Result<std::shared_ptr<Completion>> VulkanEncoder::Submit() {
  if (const auto again = std::exchange(replayed_, nullptr)) {
    if (next_refill_ != again->refills.size())
      return Internal(
          Cat("a recording of ", again->refills.size(), " copies was given ", next_refill_));
    INFER_TRY(Hand(again->pieces));
    commands_.replayed += static_cast<int64_t>(again->pieces.size());
  } else {
    INFER_TRY(Flush());
  }
  return EndOf(timeline_, std::exchange(downloads_, {}));
}

Result<size_t> VulkanEncoder::Mark() {
  INFER_ASSIGN(Batch* const batch, Open());
  INFER_ASSIGN(const size_t number, marks_.Add(batch->commands()));
  order_.Cleared();
  return number;
}

Status VulkanEncoder::Dispatch(const Pipeline& pipeline, std::span<const Binding> bindings,
                               const PushData& push, const Extent& extent) {
  INFER_CHECK(bindings.size() == static_cast<size_t>(pipeline.bindings));
  if (open_ && ((open_->dispatches >= kMostDispatches && !recording_) ||
                (open_->dispatches > 0 &&
                 open_->work > parts_->gpu->options().submission_work - extent.work())))
    INFER_TRY(Flush());
  INFER_ASSIGN(Batch* const batch, Open());
  const Gpu& gpu = *parts_->gpu;
  INFER_ASSIGN(const VkDescriptorSet set, batch->NewSet(pipeline));
  SetWriter writer(set);
  std::vector<Range> read, written;
  for (const Binding& b : bindings) {
    const Memory& memory = MemoryOf(b.view);
    const int64_t at = memory.offset() + b.view.offset;
    // Shaders see whole words; the part is padded to more than that.
    const Range range{memory.buffer(), at, at + (b.view.bytes + 3) / 4 * 4};
    writer.Add(range);
    (b.written ? written : read).push_back(range);
  }
  writer.Write(gpu);
  const VkCommandBuffer commands = batch->commands();
  order_.Next(gpu.vk(), commands, batch->queue(), read, written);
  gpu.vk().vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.pipeline);
  gpu.vk().vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.layout, 0, 1,
                                   &set, 0, nullptr);
  gpu.vk().vkCmdPushConstants(commands, pipeline.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes,
                              push.words.data());
  const auto& groups = extent.groups;
  gpu.vk().vkCmdDispatch(commands, groups[0], groups[1], groups[2]);
  ++batch->dispatches;
  batch->work += extent.work();
  ++commands_.recorded;
  return {};
}

Status VulkanEncoder::CopyBytes(const Range& to, const Range& from, QueueKind queue) {
  INFER_ASSIGN(Batch* const batch, Open(queue));
  order_.Next(parts_->gpu->vk(), batch->commands(), batch->queue(), std::span(&from, 1),
              std::span(&to, 1));
  const VkBufferCopy region{static_cast<VkDeviceSize>(from.begin),
                            static_cast<VkDeviceSize>(to.begin),
                            static_cast<VkDeviceSize>(to.end - to.begin)};
  parts_->gpu->vk().vkCmdCopyBuffer(batch->commands(), from.buffer, to.buffer, 1, &region);
  ++commands_.recorded;
  return {};
}

Status VulkanEncoder::Copy(const BufferView& to, const BufferView& from) {
  const Memory &target = MemoryOf(to), &source = MemoryOf(from);
  const int64_t a = target.offset() + to.offset, b = source.offset() + from.offset;
  if (to.bytes == 0) return {};
  return CopyBytes({target.buffer(), a, a + to.bytes}, {source.buffer(), b, b + from.bytes},
                   QueueKind::kCompute);
}

}  // namespace infer::vulkan
