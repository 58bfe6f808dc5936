/// The backend of a build without Vulkan's headers or its shader compiler.
#include "runtime/vulkan/backend.h"

namespace infer {
namespace {

constexpr const char* kAbsent =
    "this build has no Vulkan: its headers, volk or glslc were not found (tools/setup.sh)";

class AbsentVulkan final : public Backend {
 public:
  std::string_view name() const override { return "vulkan"; }
  std::string Unavailable() const override { return kAbsent; }
  Result<std::shared_ptr<const Program>> Compile(const Graph&,
                                                 const CompileOptions&) const override {
    return Unsupported(kAbsent);
  }
};

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the declaration is that of the real one.
std::unique_ptr<Backend> MakeVulkanBackend(VulkanBackendOptions) {
  return std::make_unique<AbsentVulkan>();
}

VulkanMemoryUse VulkanMemoryOf(const Backend&) { return {}; }

Result<std::vector<VulkanDeviceInfo>> ListVulkanDevices(const VulkanOptions&) {
  return Unsupported(kAbsent);
}

Result<VulkanOptions> VulkanOptionsFromEnvironment() { return VulkanOptions(); }

const std::vector<VulkanFeature>& VulkanFeatures() {
  static const std::vector<VulkanFeature> none;
  return none;
}

}  // namespace infer
