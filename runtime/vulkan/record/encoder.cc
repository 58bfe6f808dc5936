#include "runtime/vulkan/record/encoder.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "lib/support/strings.h"

namespace infer::vulkan {
namespace {

/// Bytes that wait in staging buffers at most, and of one of them.
constexpr int64_t kMostStaged = int64_t{64} << 20, kStagedPart = int64_t{8} << 20;
/// A submission holds so many dispatches at most: the device begins while the host records, and no
/// submission runs as long as a watchdog waits.
constexpr int kMostDispatches = 64;
constexpr uint32_t kSetsOfAPool = 64, kBuffersOfASet = 6;

Memory& MemoryOf(const BufferView& view) { return static_cast<Memory&>(*view.memory); }

}  // namespace

/// Counts up as batches of one encoder end. Outlives the encoder in completions.
struct VulkanEncoder::Timeline {
  explicit Timeline(std::shared_ptr<Gpu> g) : gpu(std::move(g)) {}
  ~Timeline() {
    if (semaphore) gpu->vk().vkDestroySemaphore(gpu->device(), semaphore, nullptr);
  }
  Status Wait(uint64_t value) const {
    VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore;
    info.pValues = &value;
    const VkResult result = gpu->vk().vkWaitSemaphores(gpu->device(), &info, UINT64_MAX);
    INFER_TRY(gpu->Check(result, "waiting for the device"));
    if (gpu->Fails(VulkanCall::kWait)) return StatusOf(VK_ERROR_DEVICE_LOST, "waiting");
    return {};
  }
  bool Reached(uint64_t value) const {
    uint64_t now = 0;
    return gpu->vk().vkGetSemaphoreCounterValue(gpu->device(), semaphore, &now) == VK_SUCCESS &&
           now >= value;
  }
  std::shared_ptr<Gpu> gpu;
  VkSemaphore semaphore = VK_NULL_HANDLE;
  uint64_t last = 0;  // of what was submitted
};

/// The end of all that was submitted up to a value; then brings the downloads home.
class VulkanEncoder::Ended final : public Completion {
 public:
  Ended(std::shared_ptr<Timeline> timeline, std::vector<PendingDownload> downloads)
      : timeline_(std::move(timeline)), value_(timeline_->last), downloads_(std::move(downloads)) {}

  bool done() const override {
    const std::lock_guard lock(mutex_);
    if (!ended_ && timeline_->Reached(value_)) Finish();
    return ended_;
  }
  Status Wait() override {
    const std::lock_guard lock(mutex_);
    if (!ended_) Finish();
    return status_;
  }

 private:
  void Finish() const {
    ended_ = true;
    status_ = timeline_->Wait(value_);
    for (const PendingDownload& d : downloads_) {
      if (status_.ok()) status_ = d.from->Invalidate(0, d.bytes);
      if (status_.ok()) std::memcpy(d.to, d.from->host(), static_cast<size_t>(d.bytes));
    }
    downloads_.clear();
  }
  const std::shared_ptr<Timeline> timeline_;
  const uint64_t value_;
  mutable std::mutex mutex_;
  mutable std::vector<PendingDownload> downloads_;
  mutable bool ended_ = false;
  mutable Status status_;
};

Result<std::unique_ptr<Encoder>> VulkanEncoder::Make(std::shared_ptr<DeviceParts> parts) {
  if (parts->gpu->lost())
    return ResourceExhausted(Cat("device '", parts->gpu->info().name, "' was lost"));
  auto timeline = std::make_shared<Timeline>(parts->gpu);
  VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  const VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type};
  INFER_TRY(parts->gpu->Check(parts->gpu->vk().vkCreateSemaphore(parts->gpu->device(), &info,
                                                                 nullptr, &timeline->semaphore),
                              "vkCreateSemaphore"));
  return std::unique_ptr<Encoder>(new VulkanEncoder(std::move(parts), std::move(timeline)));
}

VulkanEncoder::~VulkanEncoder() {
  // Nothing it submitted may outlive what it recorded; a device that is lost runs nothing.
  if (timeline_->last > 0) static_cast<void>(timeline_->Wait(timeline_->last));
  if (open_) Free(*open_);
  for (const auto& b : under_way_) Free(*b);
  for (const auto& b : spare_) Free(*b);
}

void VulkanEncoder::Free(Batch& batch) {
  const VolkDeviceTable& vk = parts_->gpu->vk();
  const VkDevice device = parts_->gpu->device();
  for (const VkDescriptorPool pool : batch.sets) vk.vkDestroyDescriptorPool(device, pool, nullptr);
  if (batch.pool) vk.vkDestroyCommandPool(device, batch.pool, nullptr);
}

Status VulkanEncoder::Make(Batch& batch) {
  Gpu& gpu = *parts_->gpu;
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  pool.queueFamilyIndex = gpu.family();
  INFER_TRY(gpu.Check(gpu.vk().vkCreateCommandPool(gpu.device(), &pool, nullptr, &batch.pool),
                      "vkCreateCommandPool"));
  VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  info.commandPool = batch.pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  return gpu.Check(gpu.vk().vkAllocateCommandBuffers(gpu.device(), &info, &batch.commands),
                   "vkAllocateCommandBuffers");
}

Result<VulkanEncoder::Batch*> VulkanEncoder::Open() {
  if (open_) return open_.get();
  INFER_TRY(Recycle(false));
  Gpu& gpu = *parts_->gpu;
  std::unique_ptr<Batch> batch;
  if (!spare_.empty()) {
    batch = std::move(spare_.back());
    spare_.pop_back();
  } else {
    batch = std::make_unique<Batch>();
  }
  Status made = batch->pool ? Status() : Make(*batch);
  if (made.ok()) {
    VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    made =
        gpu.Check(gpu.vk().vkBeginCommandBuffer(batch->commands, &begin), "vkBeginCommandBuffer");
  }
  if (!made.ok()) {
    Free(*batch);
    return made;
  }
  open_ = std::move(batch);
  return open_.get();
}

Status VulkanEncoder::Recycle(bool wait) {
  Gpu& gpu = *parts_->gpu;
  if (wait && timeline_->last > 0) INFER_TRY(timeline_->Wait(timeline_->last));
  while (!under_way_.empty() && timeline_->Reached(under_way_.front()->value)) {
    Batch& batch = *under_way_.front();
    for (auto& m : batch.staged) {
      staged_bytes_ -= m->bytes();
      spare_stages_.push_back(std::move(m));
    }
    batch.staged.clear();
    batch.dispatches = 0;
    batch.sets_used = 0;
    for (const VkDescriptorPool pool : batch.sets)
      gpu.vk().vkResetDescriptorPool(gpu.device(), pool, 0);
    INFER_TRY(
        gpu.Check(gpu.vk().vkResetCommandPool(gpu.device(), batch.pool, 0), "vkResetCommandPool"));
    spare_.push_back(std::move(under_way_.front()));
    under_way_.pop_front();
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
    gpu.vk().vkCmdPipelineBarrier(open_->commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                  VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0,
                                  nullptr);
  }
  INFER_TRY(gpu.Check(gpu.vk().vkEndCommandBuffer(open_->commands), "vkEndCommandBuffer"));
  const uint64_t value = timeline_->last + 1;
  VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  values.signalSemaphoreValueCount = 1;
  values.pSignalSemaphoreValues = &value;
  VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &open_->commands;
  submit.signalSemaphoreCount = 1;
  submit.pSignalSemaphores = &timeline_->semaphore;
  INFER_TRY(gpu.Check(gpu.Submit(submit), "vkQueueSubmit"));
  open_->value = timeline_->last = value;
  under_way_.push_back(std::move(open_));
  return {};
}

Result<std::shared_ptr<Completion>> VulkanEncoder::Submit() {
  INFER_TRY(Flush());
  return std::shared_ptr<Completion>(
      std::make_shared<Ended>(timeline_, std::exchange(downloads_, {})));
}

Result<size_t> VulkanEncoder::Mark() {
  INFER_ASSIGN(Batch* const batch, Open());
  INFER_ASSIGN(const size_t number, marks_.Add(batch->commands));
  reads_.clear();
  writes_.clear();
  return number;
}

void VulkanEncoder::Order(Batch& batch, std::span<const Range> reads,
                          std::span<const Range> writes) {
  const auto meet = [](std::span<const Range> a, const std::vector<Range>& b) {
    for (const Range& x : a)
      for (const Range& y : b)
        if (x.buffer == y.buffer && x.begin < y.end && y.begin < x.end) return true;
    return false;
  };
  if (meet(reads, writes_) || meet(writes, writes_) || meet(writes, reads_)) {
    constexpr VkPipelineStageFlags kStages =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                            VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    parts_->gpu->vk().vkCmdPipelineBarrier(batch.commands, kStages, kStages, 0, 1, &barrier, 0,
                                           nullptr, 0, nullptr);
    reads_.clear();
    writes_.clear();
  }
  reads_.insert(reads_.end(), reads.begin(), reads.end());
  writes_.insert(writes_.end(), writes.begin(), writes.end());
}

Result<VkDescriptorPool> VulkanEncoder::NewSetPool() {
  Gpu& gpu = *parts_->gpu;
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kSetsOfAPool * kBuffersOfASet};
  VkDescriptorPoolCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  info.maxSets = kSetsOfAPool;
  info.poolSizeCount = 1;
  info.pPoolSizes = &size;
  VkDescriptorPool pool = VK_NULL_HANDLE;
  INFER_TRY(gpu.Check(gpu.vk().vkCreateDescriptorPool(gpu.device(), &info, nullptr, &pool),
                      "vkCreateDescriptorPool"));
  return pool;
}

Result<VkDescriptorSet> VulkanEncoder::NewSet(Batch& batch, const Pipeline& pipeline) {
  Gpu& gpu = *parts_->gpu;
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorSetCount = 1;
  info.pSetLayouts = &pipeline.set;
  for (;;) {
    const bool fresh = batch.sets_used == batch.sets.size();
    if (fresh) {
      INFER_ASSIGN(const VkDescriptorPool pool, NewSetPool());
      batch.sets.push_back(pool);
    }
    info.descriptorPool = batch.sets[batch.sets_used];
    VkDescriptorSet set = VK_NULL_HANDLE;
    const VkResult result = gpu.vk().vkAllocateDescriptorSets(gpu.device(), &info, &set);
    if (result == VK_SUCCESS) return set;
    const bool full = result == VK_ERROR_OUT_OF_POOL_MEMORY || result == VK_ERROR_FRAGMENTED_POOL;
    if (fresh || !full) return gpu.Check(result, "vkAllocateDescriptorSets");
    ++batch.sets_used;
  }
}

Status VulkanEncoder::Dispatch(const Pipeline& pipeline, std::span<const Binding> bindings,
                               const PushData& push, const std::array<uint32_t, 3>& groups) {
  INFER_CHECK(bindings.size() == static_cast<size_t>(pipeline.bindings));
  if (open_ && open_->dispatches >= kMostDispatches) INFER_TRY(Flush());
  INFER_ASSIGN(Batch* const batch, Open());
  Gpu& gpu = *parts_->gpu;
  INFER_ASSIGN(const VkDescriptorSet set, NewSet(*batch, pipeline));
  std::array<VkDescriptorBufferInfo, 8> buffers;
  std::array<VkWriteDescriptorSet, 8> writes;
  std::vector<Range> read, written;
  for (size_t i = 0; i < bindings.size(); ++i) {
    const BufferView& view = bindings[i].view;
    const Memory& memory = MemoryOf(view);
    const int64_t at = memory.offset() + view.offset;
    // Shaders see whole words; the part is padded to more than that.
    const int64_t bytes = (view.bytes + 3) / 4 * 4;
    buffers[i] = {memory.buffer(), static_cast<VkDeviceSize>(at), static_cast<VkDeviceSize>(bytes)};
    writes[i] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    writes[i].dstSet = set;
    writes[i].dstBinding = static_cast<uint32_t>(i);
    writes[i].descriptorCount = 1;
    writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    writes[i].pBufferInfo = &buffers[i];
    (bindings[i].written ? written : read).push_back({memory.buffer(), at, at + bytes});
  }
  gpu.vk().vkUpdateDescriptorSets(gpu.device(), static_cast<uint32_t>(bindings.size()),
                                  writes.data(), 0, nullptr);
  Order(*batch, read, written);
  gpu.vk().vkCmdBindPipeline(batch->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.pipeline);
  gpu.vk().vkCmdBindDescriptorSets(batch->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.layout,
                                   0, 1, &set, 0, nullptr);
  gpu.vk().vkCmdPushConstants(batch->commands, pipeline.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                              kPushBytes, push.words.data());
  gpu.vk().vkCmdDispatch(batch->commands, groups[0], groups[1], groups[2]);
  ++batch->dispatches;
  return {};
}

Status VulkanEncoder::CopyBytes(const Range& to, const Range& from) {
  INFER_ASSIGN(Batch* const batch, Open());
  Order(*batch, std::span(&from, 1), std::span(&to, 1));
  const VkBufferCopy region{static_cast<VkDeviceSize>(from.begin),
                            static_cast<VkDeviceSize>(to.begin),
                            static_cast<VkDeviceSize>(to.end - to.begin)};
  parts_->gpu->vk().vkCmdCopyBuffer(batch->commands, from.buffer, to.buffer, 1, &region);
  return {};
}

std::shared_ptr<Memory> VulkanEncoder::TakeSpareStage(MemoryKind kind, int64_t bytes) {
  // One that is read by nobody; a download may wait for its host still.
  const auto fits = [&](const std::shared_ptr<Memory>& m) {
    return m->kind() == kind && m->bytes() >= bytes && m.use_count() == 1;
  };
  auto best = spare_stages_.end();
  for (auto it = spare_stages_.begin(); it != spare_stages_.end(); ++it)
    if (fits(*it) && (best == spare_stages_.end() || (*it)->bytes() < (*best)->bytes())) best = it;
  if (best == spare_stages_.end()) return nullptr;
  std::atomic_thread_fence(std::memory_order_acquire);  // after its last reader, on any thread
  std::shared_ptr<Memory> part = std::move(*best);
  spare_stages_.erase(best);
  return part;
}

Result<std::shared_ptr<Memory>> VulkanEncoder::Stage(MemoryKind kind, int64_t bytes) {
  if (staged_bytes_ + bytes > kMostStaged) {
    INFER_TRY(Flush());
    INFER_TRY(Recycle(true));
  }
  std::shared_ptr<Memory> part = TakeSpareStage(kind, bytes);
  if (!part) {
    int64_t waiting = 0;
    for (const auto& m : spare_stages_) waiting += m->bytes();
    if (staged_bytes_ + waiting + bytes > kMostStaged) spare_stages_.clear();
    INFER_ASSIGN(part, parts_->allocator->Allocate(kind, bytes));
  }
  INFER_ASSIGN(Batch* const batch, Open());
  batch->staged.push_back(part);
  staged_bytes_ += part->bytes();
  return part;
}

Status VulkanEncoder::Upload(const BufferView& to, const std::byte* from) {
  if (to.bytes == 0) return {};
  Memory& memory = MemoryOf(to);
  INFER_TRY(Recycle(false));
  if (memory.host() && !open_ && under_way_.empty()) {
    std::memcpy(memory.host() + to.offset, from, static_cast<size_t>(to.bytes));
    return memory.Flush(to.offset, to.bytes);
  }
  for (int64_t at = 0; at < to.bytes; at += kStagedPart) {
    const int64_t bytes = std::min(kStagedPart, to.bytes - at);
    INFER_ASSIGN(const auto part, Stage(MemoryKind::kUpload, bytes));
    std::memcpy(part->host(), from + at, static_cast<size_t>(bytes));
    INFER_TRY(part->Flush(0, bytes));
    const int64_t begin = memory.offset() + to.offset + at;
    INFER_TRY(CopyBytes({memory.buffer(), begin, begin + bytes},
                        {part->buffer(), part->offset(), part->offset() + bytes}));
  }
  return {};
}

Status VulkanEncoder::Download(std::byte* to, const BufferView& from) {
  const Memory& memory = MemoryOf(from);
  for (int64_t at = 0; at < from.bytes; at += kStagedPart) {
    const int64_t bytes = std::min(kStagedPart, from.bytes - at);
    if (staged_bytes_ + bytes > kMostStaged) {
      // What waits is brought home, so that its staging buffers can go.
      INFER_ASSIGN(const auto ended, Submit());
      INFER_TRY(ended->Wait());
      INFER_TRY(Recycle(true));
    }
    INFER_ASSIGN(const auto part, Stage(MemoryKind::kDownload, bytes));
    const int64_t begin = memory.offset() + from.offset + at;
    INFER_TRY(CopyBytes({part->buffer(), part->offset(), part->offset() + bytes},
                        {memory.buffer(), begin, begin + bytes}));
    downloads_.push_back({to + at, part, bytes});
  }
  return {};
}

Status VulkanEncoder::Copy(const BufferView& to, const BufferView& from) {
  const Memory &target = MemoryOf(to), &source = MemoryOf(from);
  const int64_t a = target.offset() + to.offset, b = source.offset() + from.offset;
  if (to.bytes == 0) return {};
  return CopyBytes({target.buffer(), a, a + to.bytes}, {source.buffer(), b, b + from.bytes});
}

}  // namespace infer::vulkan
