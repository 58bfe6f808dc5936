#pragma once
/// A stand-in for a device backend in tests: its memory cannot be read by the host, its launches
/// complete late. It computes with the reference kernels.
#include <memory>

#include "runtime/api/program.h"

namespace infer {

std::unique_ptr<Backend> MakeMockBackend();

}  // namespace infer
