#pragma once
/// Values that lie in bf16 between products in bf16 (Compute::kBF16).
#include "runtime/plan_ir/kernel.h"

namespace infer {

/// Sets Plan::in_bf16: results of such products that nothing but such products reads, as operand or
/// residual, some with a maximum pool in between. All others stay f32: what normalizations,
/// attention and the graph's readers see is rounded nowhere.
void ChooseBf16Values(Plan& plan, const KernelList& kernels, const CompileOptions& options);

}  // namespace infer
