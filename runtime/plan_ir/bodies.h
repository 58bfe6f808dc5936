#pragma once
/// The subgraphs of If, Loop, Scan and SequenceMap as programs of their own. The operator itself
/// (which branch, how often, slices and stacks) is lib/ir/control_flow.h.
#include <set>
#include <unordered_map>

#include "lib/ir/control_flow.h"
#include "runtime/plan_ir/executor_program.h"

namespace infer {

/// The step's subgraphs are run by its context, not by its reference kernel.
bool RunsBodies(const PlanStep& step);

/// A program for each subgraph of the plan's control flow. What the outer graph knows to be
/// constant is constant inside. A body that cannot be compiled is left to the reference kernels
/// (its branch may never run), unless `must`.
Result<BodyPrograms> CompileBodies(const Plan& plan, const CompileFn& compile, bool must);

class Executor;

/// What one context needs to run them.
class BodyRuns {
 public:
  explicit BodyRuns(const BodyPrograms& bodies);
  ~BodyRuns();
  /// With a profile, adds what was spent on reference kernels to `times`, under names that begin
  /// with `op`. Captures stay bound until they change, or are released.
  Status Run(const SubgraphCall& call, const RunOptions& options, std::string_view op,
             OperatorTimes& times);
  /// Lets go of what the subgraphs of `node` captured.
  void Release(const Node& node);

 private:
  struct State {
    const BodyProgram* body = nullptr;  // nullptr: on reference kernels
    std::unique_ptr<Executor> context;
    size_t shapes_planned = 0;
    std::set<std::vector<Dims>> seen;  ///< shapes that ran once on reference kernels
  };
  State& StateOf(const Graph& g);
  /// Planning costs more than one slow run of a small body. The first shapes get a plan at once;
  /// where they change from iteration to iteration (a state that grows) further ones get theirs
  /// when they come again, as many as are kept.
  static bool IsWorthAPlan(State& state);
  /// Whether it ran: shapes without a plan may not be worth one.
  static Result<bool> RunPlanned(State& state, const SubgraphCall& call, const RunOptions& options);

  const BodyPrograms& bodies_;
  std::unordered_map<const Graph*, State> states_;
};

}  // namespace infer
