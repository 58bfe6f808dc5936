#pragma once
/// Compute pipelines of a device, made when they are first asked for and kept as long as it.
#include <map>
#include <mutex>
#include <vector>

#include "runtime/vulkan/device/gpu.h"
#include "runtime/vulkan/record/shaders.h"

namespace infer::vulkan {

/// Push constants of every shader, in bytes: what each device of Vulkan has.
inline constexpr uint32_t kPushBytes = 128;

struct Pipeline {
  VkPipeline pipeline = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkDescriptorSetLayout set = VK_NULL_HANDLE;
  int bindings = 0;
};

/// Thread-safe.
class Pipelines {
 public:
  explicit Pipelines(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  ~Pipelines();
  /// `constants`: the specialisation constants 0, 1, ... The pointer lives as long as this.
  Result<const Pipeline*> Get(Shader shader, const std::vector<int32_t>& constants);

 private:
  struct Layouts {
    VkDescriptorSetLayout set = VK_NULL_HANDLE;
    VkPipelineLayout pipeline = VK_NULL_HANDLE;
  };
  Result<Layouts> LayoutsFor(int bindings);
  Result<VkPipeline> Make(const ShaderCode& code, VkPipelineLayout layout,
                          const std::vector<int32_t>& constants);

  std::shared_ptr<Gpu> gpu_;
  std::mutex mutex_;
  std::map<int, Layouts> layouts_;  // by number of bindings
  std::map<std::pair<Shader, std::vector<int32_t>>, Pipeline> pipelines_;
};

}  // namespace infer::vulkan
