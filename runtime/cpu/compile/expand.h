#pragma once
/// Operators that are made of others, where no kernel here computes them whole.
#include "runtime/plan_ir/kernel.h"

namespace infer {

/// Every node whose operator has a body or a decomposition, and which no kernel accepts, becomes
/// the nodes of that, so that what follows sees one form. Left as they are: nodes of too little
/// known types, of f64, which no kernel takes, and those whose parts are loops. Returns how many
/// are gone.
Result<int> ExpandNodes(Graph& g, const KernelList& kernels, const CompileOptions& options);

}  // namespace infer
