#pragma once
/// Compute pipelines of a device, made when they are first asked for and kept as long as it.
#include <map>
#include <mutex>
#include <vector>

#include "runtime/api/program.h"
#include "runtime/vulkan/record/pipeline_cache.h"
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
  explicit Pipelines(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)), cache_(gpu_) {}
  ~Pipelines();
  /// `constants`: the specialisation constants 0, 1, ... The pointer lives as long as this.
  Result<const Pipeline*> Get(Shader shader, const std::vector<int32_t>& constants);
  PipelineInfo info() const;
  /// Writes the cache where pipelines were made since it was written. A cache that cannot be
  /// written is no failure: the next start makes them anew.
  void Save();

 private:
  struct Layouts {
    VkDescriptorSetLayout set = VK_NULL_HANDLE;
    VkPipelineLayout pipeline = VK_NULL_HANDLE;
  };
  Result<Layouts> LayoutsFor(int bindings);
  Result<VkPipeline> Make(const ShaderCode& code, VkPipelineLayout layout,
                          const std::vector<int32_t>& constants);

  void SaveLocked();

  std::shared_ptr<Gpu> gpu_;
  PipelineCache cache_;
  double made_ms_ = 0;
  size_t saved_ = 0;  // how many pipelines there were when the cache was written
  mutable std::mutex mutex_;
  std::map<int, Layouts> layouts_;  // by number of bindings
  std::map<std::pair<Shader, std::vector<int32_t>>, Pipeline> pipelines_;
};

}  // namespace infer::vulkan
