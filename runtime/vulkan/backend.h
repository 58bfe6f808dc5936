#pragma once
/// The Vulkan backend: compute shaders on any device of Vulkan 1.2, with another backend's kernels
/// behind them for what has no shader (docs/vulkan.md). The loader is opened when a backend or a
/// list of devices is made, so that a program starts on machines without Vulkan.
#include <memory>
#include <vector>

#include "runtime/plan_ir/plan_backend.h"
#include "runtime/vulkan/options.h"

namespace infer {

struct VulkanBackendOptions {
  VulkanOptions device = {};
  /// The backend that runs what has no shader.
  std::shared_ptr<const PlanBackend> behind = ReferenceHost();
  /// Every step that has a shader runs on the device, whatever its transfers cost; for tests.
  bool keep_all = false;
};

/// Always a backend; where it cannot run, Unavailable() says which of build, loader, driver and
/// device is missing, and Compile returns that.
std::unique_ptr<Backend> MakeVulkanBackend(VulkanBackendOptions options = {});

/// What the device holds at this moment; zeros where the backend cannot run.
VulkanMemoryUse VulkanMemoryOf(const Backend& backend);

}  // namespace infer
