#include "runtime/cpu/backend.h"
#include "runtime/vulkan/backend.h"
#include "tests/suites/suite.h"

namespace infer {

/// The device with the CPU's kernels behind it; every step that has a shader runs on the device.
const Backend& BackendUnderTest() {
  static const std::unique_ptr<Backend> backend = [] {
    auto options = VulkanOptionsFromEnvironment();
    INFER_CHECK(options.ok());
    return MakeVulkanBackend(
        {.device = *std::move(options), .behind = CpuHost(), .keep_all = true});
  }();
  return *backend;
}

}  // namespace infer
