#pragma once
/// Host memory on the way to and from a device, of one encoder.
#include <memory>
#include <vector>

#include "runtime/vulkan/record/batch.h"

namespace infer::vulkan {

/// A part of staging memory.
struct Stage {
  std::shared_ptr<Memory> memory;
  int64_t offset = 0, bytes = 0;
  std::byte* host() const { return memory->host() + offset; }
  int64_t begin() const { return memory->offset() + offset; }  ///< in its buffer
};

class Staging {
 public:
  explicit Staging(std::shared_ptr<Allocator> allocator) : allocator_(std::move(allocator)) {}

  /// Of submissions that are made once: bytes that are in use at most, and of one part.
  static constexpr int64_t kMost = int64_t{32} << 20, kPart = int64_t{8} << 20;
  /// Of recordings, in all.
  static constexpr int64_t kMostKept = int64_t{32} << 20;

  /// Whether so many bytes more are in use at most kMost.
  bool HasRoom(int64_t bytes) const { return used_ + bytes <= kMost; }
  /// Memory that goes with the batch, one that waits where there is one.
  Result<Stage> ForBatch(MemoryKind kind, int64_t bytes, Batch& batch);
  /// The batch has ended.
  void TakeBack(Batch& batch);

  /// All recordings of an encoder share one area for each way, each from its begin on: no two of
  /// them are under way at once.
  void BeginRecording();
  /// In the area; no memory where recordings would take more than kMostKept.
  Result<Stage> ForRecording(MemoryKind kind, int64_t bytes);
  /// What waits, and what recordings do without, goes.
  void DropSpare() { spare_.clear(); }

 private:
  struct Area {
    std::shared_ptr<Memory> memory = {};  // recordings keep what a larger one replaced
    int64_t used = 0;
    int64_t size() const { return memory ? memory->bytes() : 0; }
  };
  std::shared_ptr<Memory> TakeSpare(MemoryKind kind, int64_t bytes);

  std::shared_ptr<Allocator> allocator_;
  int64_t used_ = 0;                            // of batches that have not ended
  std::vector<std::shared_ptr<Memory>> spare_;  // of batches that have
  Area up_, down_;
};

}  // namespace infer::vulkan
