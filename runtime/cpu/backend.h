#pragma once
/// The CPU backend: oneDNN and our own vector kernels on OpenMP lanes; what neither takes runs on
/// the reference kernel, and StepInfo says so.
#include <memory>

#include "runtime/api/program.h"

namespace infer {

std::unique_ptr<Backend> MakeCpuBackend();

}  // namespace infer
