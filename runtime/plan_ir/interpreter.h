#pragma once
/// The allocating executor: every step on the reference kernels of its nodes, each value freed
/// after its last reader. Obviously right, any type, any data-dependent shape.
#include "lib/ir/control_flow.h"
#include "runtime/plan_ir/plan.h"

namespace infer {

Result<std::shared_ptr<const Program>> CompileInterpreter(const Graph& graph,
                                                          const CompileOptions& options);

/// Evaluates the nodes of one step. `slots` holds a Datum per value id (constants too); outputs
/// that are read outside the step are stored there, inner ones are dropped. `check` is of the
/// plan's graph and the inputs of this run. Subgraphs run by `run`, where it is given.
Status EvaluateStep(const Plan& plan, const PlanStep& step, std::vector<Datum>& slots,
                    ResultCheck& check, const SubgraphRunner& run = {});

}  // namespace infer
