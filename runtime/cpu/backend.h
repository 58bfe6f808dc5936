#pragma once
/// The CPU backend: oneDNN and our own vector kernels on the lanes of the process; what neither
/// takes runs on the reference kernel, and StepInfo says so.
#include <memory>

#include "runtime/plan_ir/plan_backend.h"

namespace infer {

std::unique_ptr<Backend> MakeCpuBackend();

/// The CPU backend's part in the executor; other backends put it behind their own kernels.
std::shared_ptr<const PlanBackend> CpuHost();

}  // namespace infer
