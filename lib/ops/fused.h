#pragma once
/// The family of fused operators of our own (domain infer). Not in families.h, so that a new one
/// does not recompile the others.
#include <span>

#include "lib/ops/op_def.h"

namespace infer {

std::span<const OpDef> FusedOps();

}  // namespace infer
