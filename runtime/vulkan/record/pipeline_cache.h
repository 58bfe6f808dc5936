#pragma once
/// What a driver keeps of the pipelines that it made, in a file of this machine: its own form
/// behind a header of ours, since drivers trust what they are given. A file of another device,
/// driver or set of shaders, a short one, and one whose checksum differs, are as if there were
/// none.
#include <string>

#include "runtime/vulkan/device/gpu.h"

namespace infer::vulkan {

/// Contents of a file: `payload` is the driver's form, `identity` what it hangs on.
std::string PipelineFile(std::string_view identity, std::string_view payload);
/// The payload of such contents; InvalidArgument says why not.
Result<std::string> PipelinePayload(std::string_view file, std::string_view identity);
/// Device, driver and shaders of this build, as text.
std::string PipelineIdentity(const VkPhysicalDeviceProperties& device);

/// Thread-safe as VkPipelineCache is: creating pipelines is, Save is for one at a time.
class PipelineCache {
 public:
  /// Reads the file in the folder of VulkanOptions::pipeline_cache, if there are both.
  explicit PipelineCache(std::shared_ptr<Gpu> gpu);
  ~PipelineCache();
  PipelineCache(const PipelineCache&) = delete;
  PipelineCache& operator=(const PipelineCache&) = delete;

  VkPipelineCache handle() const { return cache_; }
  /// "off", "absent", "loaded", or "rejected: " with the reason.
  const std::string& state() const { return state_; }
  /// Of the payload that was loaded.
  int64_t loaded_bytes() const { return loaded_bytes_; }
  const std::string& path() const { return path_; }
  /// Writes the file, with what others have added to it meanwhile.
  Status Save();

 private:
  VkPipelineCache Create(std::string_view payload) const;
  std::shared_ptr<Gpu> gpu_;
  std::string identity_, path_, state_ = "off";
  int64_t loaded_bytes_ = 0;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
};

}  // namespace infer::vulkan
