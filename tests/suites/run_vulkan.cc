#include <cstdlib>

#include "runtime/cpu/backend.h"
#include "runtime/vulkan/backend.h"
#include "tests/runtime/vulkan/or_exit.h"
#include "tests/suites/suite.h"

namespace infer {

/// The device with the CPU's kernels behind it; every step that has a shader runs on the device.
const Backend& BackendUnderTest() {
  static const std::unique_ptr<Backend> backend = [] {
    // Dispatches of so few numbers are not worth the threads of a driver on the CPU.
    setenv("LP_NUM_THREADS", "0", 0);
    auto options = VulkanOptionsFromEnvironment();
    INFER_CHECK(options.ok());
    options->pipeline_cache.clear();
    return OrExit(
        MakeVulkanBackend({.device = *std::move(options), .behind = CpuHost(), .keep_all = true}));
  }();
  return *backend;
}

}  // namespace infer
