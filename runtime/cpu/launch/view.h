#pragma once
/// A step whose result is its first operand's bytes with other extents: no launch at all.
#include "runtime/plan_ir/kernel.h"

namespace infer {

std::unique_ptr<Kernel> MakeView(const StepCall& call);

}  // namespace infer
