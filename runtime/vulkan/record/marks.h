#pragma once
/// Points on the device's clock, between the commands of one encoder.
#include <vector>

#include "runtime/vulkan/device/gpu.h"

namespace infer::vulkan {

class Marks {
 public:
  explicit Marks(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  ~Marks();
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  /// Adds to `commands` what waits for all before it, keeps all behind it back, and writes down
  /// the time. The number of the mark. Unsupported where the queue has no clock.
  Result<size_t> Add(VkCommandBuffer commands);
  /// Milliseconds since the first mark of all; numbers begin anew. Pre: the commands have ended.
  Result<std::vector<double>> Take();

 private:
  static constexpr uint32_t kOfAPool = 256;
  std::shared_ptr<Gpu> gpu_;
  std::vector<VkQueryPool> pools_;
  size_t count_ = 0;
  bool has_first_ = false;
  uint64_t first_ = 0;  // ticks
};

}  // namespace infer::vulkan
