#pragma once
/// The zeros in the weights of a model: `infer-opt inspect --sparsity`.
#include "lib/ir/graph.h"
#include "tools/common/report.h"

namespace infer {

/// Prints a table of the layers and a line of totals, and fills report["sparsity"].
void ShowSparsity(Context& context, const Graph& g, Json& report);

}  // namespace infer
