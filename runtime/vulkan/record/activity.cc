#include "runtime/vulkan/record/activity.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/plan_ir/plan_program.h"

namespace infer::vulkan {
namespace {

/// Spans of a window: 24 MiB.
constexpr int64_t kPlaces = int64_t{1} << 20;
/// How often a queue's clock is compared with the host's.
constexpr int kClockRounds = 4;
constexpr QueueKind kKinds[] = {QueueKind::kCompute, QueueKind::kUpload, QueueKind::kDownload};
constexpr const char* kNames[] = {"compute", "upload", "download"};

size_t IndexOf(QueueKind queue) { return static_cast<size_t>(queue); }

}  // namespace

// ---- The log ---------------------------------------------------------------------------------

Status ActivityLog::Start() {
  if (gpu_->tick_bits() == 0) return Unsupported("the queue of this device has no timestamps");
  if (!gpu_->resets_queries()) return Unsupported("the host of this device may not reset queries");
  is_on_ = false;
  for (const QueueKind queue : kKinds) {
    if (!gpu_->HasQueue(queue) || gpu_->tick_bits(queue) == 0) continue;
    INFER_ASSIGN(clocks_[IndexOf(queue)], Compare(queue));
  }
  JoinClocks();
  const std::lock_guard lock(mutex_);
  for (ActivityWriter* const w : writers_) {
    const std::lock_guard of_writer(w->mutex_);
    w->Collect();
    w->spans_.clear();
  }
  left_.clear();
  places_ = dropped_ = untimed_ = 0;
  full_ms_ = 0;
  start_ms_ = NowMs();
  is_on_ = true;
  return {};
}

Result<DeviceActivity> ActivityLog::Take() {
  DeviceActivity all;
  const double end_ms = NowMs();
  is_on_ = false;
  const std::lock_guard lock(mutex_);
  for (ActivityWriter* const w : writers_) {
    const std::lock_guard of_writer(w->mutex_);
    w->Collect();
    for (const DeviceSpan& s : std::exchange(w->spans_, {})) all.spans.push_back(s);
  }
  for (const DeviceSpan& s : std::exchange(left_, {})) all.spans.push_back(s);
  for (const QueueKind queue : kKinds)
    if (gpu_->HasQueue(queue)) all.queues.emplace_back(kNames[IndexOf(queue)]);
  all.dropped = dropped_;
  all.untimed = untimed_;
  all.window_ms = (all.dropped > 0 ? full_ms_.load() : end_ms) - start_ms_;
  return all;
}

Result<ActivityLog::ClockPoint> ActivityLog::Compare(QueueKind queue) {
  INFER_ASSIGN(const auto timeline, Timeline::Make(gpu_));
  const auto none = std::make_shared<ActivityLog>(gpu_);
  ClockPoint best;
  ActivityWriter writer(gpu_, none, timeline);
  INFER_ASSIGN(const ActivityWriter::Slot slot, writer.NewSlot(queue));
  for (int round = 0; round < kClockRounds; ++round) {
    gpu_->vk().vkResetQueryPool(gpu_->device(), slot.queries, 0, 2);
    const uint64_t value = timeline->last + 1;
    VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    values.signalSemaphoreValueCount = 1;
    values.pSignalSemaphoreValues = &value;
    VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
    const VkCommandBuffer commands[] = {slot.commands.begin, slot.commands.end};
    submit.commandBufferCount = 2;
    submit.pCommandBuffers = commands;
    submit.signalSemaphoreCount = 1;
    submit.pSignalSemaphores = &timeline->semaphore();
    const double before = NowMs();
    INFER_TRY(gpu_->Check(gpu_->Submit(queue, submit), "vkQueueSubmit"));
    timeline->last = value;
    INFER_TRY(timeline->Wait(value));
    const double way = NowMs() - before;
    uint64_t ticks[2] = {};
    INFER_TRY(gpu_->Check(gpu_->vk().vkGetQueryPoolResults(
                              gpu_->device(), slot.queries, 0, 2, sizeof(ticks), ticks,
                              sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                          "vkGetQueryPoolResults"));
    if (round == 0 || way < best.way_ms) best = {ticks[1], before + way / 2, way};
  }
  return best;
}

void ActivityLog::JoinClocks() {
  const ClockPoint& first = clocks_[0];
  for (const QueueKind queue : kKinds) {
    ClockPoint& other = clocks_[IndexOf(queue)];
    const double by_first =
        first.host_ms +
        TicksBetween(QueueKind::kCompute, first.ticks, other.ticks) * gpu_->tick_ns() / 1e6;
    if (std::abs(by_first - other.host_ms) <= (first.way_ms + other.way_ms) / 2) other = first;
  }
}

double ActivityLog::TicksBetween(QueueKind queue, uint64_t from, uint64_t to) const {
  // The counter may have fewer bits, and run over.
  const uint32_t unused = 64 - std::clamp<uint32_t>(gpu_->tick_bits(queue), 1, 64);
  return static_cast<double>(static_cast<int64_t>((to - from) << unused) >> unused);
}

double ActivityLog::MsOf(QueueKind queue, uint64_t ticks) const {
  const ClockPoint& clock = clocks_[IndexOf(queue)];
  return clock.host_ms + TicksBetween(queue, clock.ticks, ticks) * gpu_->tick_ns() / 1e6 -
         start_ms_;
}

bool ActivityLog::TakePlace() {
  const int64_t before = places_.fetch_add(1);
  if (before < kPlaces) return true;
  if (before == kPlaces) full_ms_ = NowMs();
  ++dropped_;
  return false;
}

int ActivityLog::Enter(ActivityWriter* writer) {
  const std::lock_guard lock(mutex_);
  writers_.push_back(writer);
  return encoders_++;
}

void ActivityLog::Leave(ActivityWriter* writer) {
  const std::lock_guard lock(mutex_);
  std::erase(writers_, writer);
  writer->Collect();
  left_.insert(left_.end(), writer->spans_.begin(), writer->spans_.end());
}

// ---- What an encoder writes ------------------------------------------------------------------

ActivityWriter::ActivityWriter(std::shared_ptr<Gpu> gpu, std::shared_ptr<ActivityLog> log,
                               std::shared_ptr<Timeline> timeline)
    : gpu_(std::move(gpu)),
      log_(std::move(log)),
      timeline_(std::move(timeline)),
      encoder_(log_->Enter(this)) {}

ActivityWriter::~ActivityWriter() {
  log_->Leave(this);
  if (gpu_->forked()) return;
  const VolkDeviceTable& vk = gpu_->vk();
  for (const VkCommandPool pool : pools_)
    if (pool) vk.vkDestroyCommandPool(gpu_->device(), pool, nullptr);
  for (const VkQueryPool pool : queries_) vk.vkDestroyQueryPool(gpu_->device(), pool, nullptr);
}

Result<ActivityWriter::Slot> ActivityWriter::NewSlot(QueueKind queue) {
  const VolkDeviceTable& vk = gpu_->vk();
  Slot slot{.queue = queue};
  VkQueryPoolCreateInfo queries{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
  queries.queryType = VK_QUERY_TYPE_TIMESTAMP;
  queries.queryCount = 2;
  INFER_TRY(gpu_->Check(vk.vkCreateQueryPool(gpu_->device(), &queries, nullptr, &slot.queries),
                        "vkCreateQueryPool"));
  queries_.push_back(slot.queries);
  VkCommandPool& pool = pools_[IndexOf(queue)];
  if (!pool) {
    VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    info.queueFamilyIndex = gpu_->family(queue);
    INFER_TRY(gpu_->Check(vk.vkCreateCommandPool(gpu_->device(), &info, nullptr, &pool),
                          "vkCreateCommandPool"));
  }
  VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  info.commandPool = pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 2;
  VkCommandBuffer made[2] = {};
  INFER_TRY(gpu_->Check(vk.vkAllocateCommandBuffers(gpu_->device(), &info, made),
                        "vkAllocateCommandBuffers"));
  slot.commands = {made[0], made[1]};
  const VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  for (uint32_t i = 0; i < 2; ++i) {
    INFER_TRY(gpu_->Check(vk.vkBeginCommandBuffer(made[i], &begin), "vkBeginCommandBuffer"));
    // The first as soon as the queue gets there, the second when all before it has ended.
    vk.vkCmdWriteTimestamp(
        made[i], i == 0 ? VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT : VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
        slot.queries, i);
    INFER_TRY(gpu_->Check(vk.vkEndCommandBuffer(made[i]), "vkEndCommandBuffer"));
  }
  return slot;
}

Result<ActivityWriter::Around> ActivityWriter::Next(QueueKind queue, uint64_t value) {
  if (!log_->is_on_.load(std::memory_order_acquire)) return Around();
  if (gpu_->tick_bits(queue) == 0) {
    ++log_->untimed_;
    return Around();
  }
  const std::lock_guard lock(mutex_);
  Collect();
  if (!log_->TakePlace()) return Around();
  std::vector<Slot>& free = free_[IndexOf(queue)];
  if (free.empty()) {
    INFER_ASSIGN(Slot fresh, NewSlot(queue));
    free.push_back(fresh);
  }
  Slot slot = free.back();
  free.pop_back();
  slot.value = value;
  gpu_->vk().vkResetQueryPool(gpu_->device(), slot.queries, 0, 2);
  under_way_.push_back(slot);
  return slot.commands;
}

void ActivityWriter::Collect() {
  while (!under_way_.empty() && timeline_->Reached(under_way_.front().value)) {
    const Slot slot = under_way_.front();
    under_way_.pop_front();
    uint64_t ticks[2] = {};
    // Not there: the submission failed, and another had its value.
    const VkResult got =
        gpu_->vk().vkGetQueryPoolResults(gpu_->device(), slot.queries, 0, 2, sizeof(ticks), ticks,
                                         sizeof(uint64_t), VK_QUERY_RESULT_64_BIT);
    if (got == VK_SUCCESS)
      spans_.push_back({encoder_, static_cast<int>(slot.queue), log_->MsOf(slot.queue, ticks[0]),
                        log_->MsOf(slot.queue, ticks[1])});
    free_[IndexOf(slot.queue)].push_back(slot);
  }
}

}  // namespace infer::vulkan
