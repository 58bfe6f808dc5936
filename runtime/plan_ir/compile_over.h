#pragma once
/// Programs over several backends: a device first, the host's kernels behind it.
#include "runtime/plan_ir/executor_program.h"

namespace infer {

/// One step per node, each with the kernels of all backends that accept it, those of the first
/// backend first; where a step runs is decided with its shapes (place_steps.h). A step that nobody
/// has a kernel for runs on reference kernels, unless the options forbid it: Unsupported lists all
/// such nodes. Pre: the last backend works on host memory, and all others on one device.
Result<std::shared_ptr<const ExecutorProgram>> CompileOver(Graph graph,
                                                           const CompileOptions& options,
                                                           const PlanBackends& backends);

}  // namespace infer
