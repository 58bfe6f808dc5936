#pragma once
/// Commands that are kept, and what of them each run brings anew.
#include "runtime/vulkan/record/encoder.h"

namespace infer::vulkan {

class VulkanRecording final : public RecordedCommands {
 public:
  /// A copy between the host and the device, in the order of the calls.
  struct Refill {
    const DeviceMemory* memory;  ///< of the device
    int64_t offset, bytes;       ///< there
    Stage stage;                 ///< no memory: the host writes to the device's
  };
  std::vector<std::unique_ptr<Batch>> pieces;
  std::vector<Refill> refills;
};

}  // namespace infer::vulkan
