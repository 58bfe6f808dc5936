#pragma once
/// Neighbours as one step, as many as go through memory together.
#include "runtime/plan_ir/groups/grouping.h"

namespace infer {

/// The name of a device's kernels for chains. They are not asked while other groups form.
constexpr std::string_view kDeviceChainKernel = "chain";

/// Joins steps of one node to chains, as far as `fits` takes them. A chain stands where its last
/// node stood; what reads its other values stands behind.
void FoldChains(Plan& plan, AcceptsStep fits);

}  // namespace infer
