#pragma once
/// The zeros in the weights of a model: `infer-opt inspect --sparsity`.
#include "lib/ir/graph.h"
#include "runtime/api/program.h"
#include "tools/common/report.h"

namespace infer {

/// Prints a table of the layers and a line of totals, and fills report["sparsity"]. With `program`
/// also which kernel runs each layer that has zeros, and why not one that skips them.
void ShowSparsity(Context& context, const Graph& g, const Program* program, Json& report);

/// Prints how many of the layers with zeros `program`, made of `g`, runs on a kernel that skips
/// them.
void TellSkipping(Context& context, const Graph& g, const Program& program);

}  // namespace infer
