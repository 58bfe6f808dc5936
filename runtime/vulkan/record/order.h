#pragma once
/// Barriers where the bytes of two commands meet and one of them writes, and nowhere else.
#include <span>
#include <vector>

#include "runtime/vulkan/device/gpu.h"

namespace infer::vulkan {

/// Bytes of a buffer.
struct Range {
  VkBuffer buffer;
  int64_t begin, end;
};

class Order {
 public:
  /// Adds a barrier to `commands`, of that queue, where the next command meets those before it.
  void Next(const VolkDeviceTable& vk, VkCommandBuffer commands, QueueKind queue,
            std::span<const Range> reads, std::span<const Range> writes);
  /// Nothing is known of what ran before: the next command waits for all of it.
  void Unknown() {
    Cleared();
    is_unknown_ = true;
  }
  /// All that ran before has ended, for whatever comes.
  void Cleared() {
    reads_.clear();
    writes_.clear();
    is_unknown_ = false;
  }

 private:
  std::vector<Range> reads_, writes_;  // since the last barrier
  bool is_unknown_ = false;
};

/// A barrier between all commands before it and all behind it, on that queue.
void AddBarrier(const VolkDeviceTable& vk, VkCommandBuffer commands, QueueKind queue);

}  // namespace infer::vulkan
