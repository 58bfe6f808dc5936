#pragma once
/// Steps that grow by what follows them: activations, biases, residual additions, conversions.
#include "runtime/plan_ir/groups/grouping.h"

namespace infer {

/// Extends each step that some kernel accepts by the only reader of its result, as often as some
/// kernel accepts the longer step. Which operators may follow is known to kernels alone.
void FoldEpilogues(Plan& plan, AcceptsStep accepts);

}  // namespace infer
