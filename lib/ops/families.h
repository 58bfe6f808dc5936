#pragma once
/// The operator families, each in the file(s) of its name.
#include <span>

#include "lib/ops/op_def.h"

namespace infer {

std::span<const OpDef> ControlFlowOps();
std::span<const OpDef> IdentityOps();

}  // namespace infer
