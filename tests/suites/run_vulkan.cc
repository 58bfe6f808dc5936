#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "runtime/cpu/backend.h"
#include "runtime/vulkan/backend.h"
#include "tests/runtime/vulkan/or_exit.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// Of the validation layer, which INFER_VULKAN_VALIDATE=1 loads (docs/vulkan.md): a test in which
/// it speaks fails.
std::atomic<int> messages = 0;

class NoMessages final : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo&) override {
    EXPECT_EQ(messages.exchange(0), 0) << "messages of the validation layer";
  }
};

VulkanOptions OptionsUnderTest() {
  auto options = VulkanOptionsFromEnvironment();
  INFER_CHECK(options.ok());
  options->pipeline_cache.clear();
  if (options->validate) {
    options->on_message = [](std::string_view m) {
      ++messages;
      std::fprintf(stderr, "validation: %.*s\n", static_cast<int>(m.size()), m.data());
    };
    ::testing::UnitTest::GetInstance()->listeners().Append(new NoMessages);
  }
  return *std::move(options);
}

}  // namespace

/// The device with the CPU's kernels behind it; every step that has a shader runs on the device.
const Backend& BackendUnderTest() {
  static const std::unique_ptr<Backend> backend = [] {
    // Dispatches of so few numbers are not worth the threads of a driver on the CPU.
    setenv("LP_NUM_THREADS", "0", 0);
    return OrExit(
        MakeVulkanBackend({.device = OptionsUnderTest(), .behind = CpuHost(), .keep_all = true}));
  }();
  return *backend;
}

}  // namespace infer
