#pragma once
/// A stand-in for a device backend in tests: its memory cannot be read by the host, its launches
/// complete late, its kernels are few, and what they lack runs on another backend's behind it.
#include <memory>

#include "runtime/mock/device.h"
#include "runtime/plan_ir/plan_backend.h"

namespace infer {

struct MockOptions {
  /// The backend that runs operators for which the mock has no kernel.
  std::shared_ptr<const PlanBackend> behind = ReferenceHost();
  mock::DeviceOptions device = {};
};

std::unique_ptr<Backend> MakeMockBackend(MockOptions options = {});

}  // namespace infer
