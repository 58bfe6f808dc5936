#pragma once
/// What tells that submissions have ended.
#include <mutex>
#include <vector>

#include "runtime/vulkan/memory/allocator.h"

namespace infer::vulkan {

/// Counts up as submissions of one encoder end. Outlives the encoder in completions.
class Timeline {
 public:
  static Result<std::shared_ptr<Timeline>> Make(const std::shared_ptr<Gpu>& gpu);
  explicit Timeline(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  Status Wait(uint64_t value) const;
  bool Reached(uint64_t value) const;
  const VkSemaphore& semaphore() const { return semaphore_; }

  uint64_t last = 0;  ///< of what was submitted

 private:
  std::shared_ptr<Gpu> gpu_;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
};

/// Bytes that a submission leaves in staging memory, and where they go.
struct PendingDownload {
  std::byte* to;
  std::shared_ptr<Memory> from;
  int64_t offset, bytes;  // in `from`
};

/// The end of all that was submitted up to now; then brings the downloads home.
std::shared_ptr<Completion> EndOf(std::shared_ptr<Timeline> timeline,
                                  std::vector<PendingDownload> downloads);

}  // namespace infer::vulkan
