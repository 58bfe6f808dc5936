#include "runtime/vulkan/record/timeline.h"

#include "runtime/vulkan/memory/host_copy.h"

namespace infer::vulkan {
namespace {

class Ended final : public Completion {
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
      if (status_.ok()) status_ = d.from->Invalidate(d.offset, d.bytes);
      if (status_.ok()) CopyOnHost(d.to, d.from->host() + d.offset, d.bytes);
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

}  // namespace

Result<std::shared_ptr<Timeline>> Timeline::Make(const std::shared_ptr<Gpu>& gpu) {
  auto made = std::make_shared<Timeline>(gpu);
  INFER_ASSIGN(const Gpu::Counter counter, gpu->TakeCounter());
  made->semaphore_ = counter.semaphore;
  made->last = counter.last;
  return made;
}

Timeline::~Timeline() {
  if (semaphore_) gpu_->GiveBack({semaphore_, last}, Reached(last));
}

Status Timeline::Wait(uint64_t value) const {
  VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore_;
  info.pValues = &value;
  if (gpu_->forked()) return gpu_->CheckThere();
  VkResult result = gpu_->vk().vkWaitSemaphores(gpu_->device(), &info, UINT64_MAX);
  // A wait may succeed on a lost device; memory holds nothing then.
  if (gpu_->Fails(VulkanCall::kWait) || gpu_->lost()) result = VK_ERROR_DEVICE_LOST;
  return gpu_->Check(result, "waiting for the device");
}

bool Timeline::Reached(uint64_t value) const {
  uint64_t now = 0;
  return !gpu_->forked() &&
         gpu_->vk().vkGetSemaphoreCounterValue(gpu_->device(), semaphore_, &now) == VK_SUCCESS &&
         now >= value;
}

std::shared_ptr<Completion> EndOf(std::shared_ptr<Timeline> timeline,
                                  std::vector<PendingDownload> downloads) {
  return std::make_shared<Ended>(std::move(timeline), std::move(downloads));
}

}  // namespace infer::vulkan
