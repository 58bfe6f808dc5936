#pragma once
/// The subgraphs of If, Loop, Scan and SequenceMap as programs of their own. The operator itself
/// (which branch, how often, slices and stacks) is lib/ir/control_flow.h.
#include <unordered_map>

#include "runtime/plan_ir/executor_program.h"

namespace infer {

/// The step's subgraphs are run by its context, not by its reference kernel.
bool RunsBodies(const PlanStep& step);

/// A program for each subgraph of the plan's control flow. What the outer graph knows to be
/// constant is constant inside. A body that cannot be compiled is left to the reference kernels
/// (its branch may never run), unless `must`.
Result<BodyPrograms> CompileBodies(const Plan& plan, const CompileFn& compile, bool must);

/// What one context needs to run them.
class BodyRuns {
 public:
  explicit BodyRuns(const BodyPrograms& bodies) : bodies_(bodies) {}
  /// `inputs` as the subgraph has them. With a profile, adds what was spent on reference kernels
  /// to `times`, under names that begin with `op`.
  Result<std::vector<Datum>> Run(const Graph& g, std::span<const Datum> inputs,
                                 const RunOptions& options, std::string_view op,
                                 OperatorTimes& times);

 private:
  struct State {
    std::unique_ptr<RunContext> context;
    int shapes_planned = 0;
  };
  bool WorthPlanning(const ExecutorProgram& program, State& state,
                     std::span<const Datum> inputs) const;

  const BodyPrograms& bodies_;
  std::unordered_map<const Graph*, State> states_;
};

}  // namespace infer
