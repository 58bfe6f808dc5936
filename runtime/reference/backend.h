#pragma once
/// The golden backend: every node by itself on its reference kernel (f32 with double sums).
#include <memory>

#include "runtime/api/program.h"

namespace infer {

std::unique_ptr<Backend> MakeReferenceBackend();

}  // namespace infer
