#pragma once
/// Compiling as a list of named steps over one state, each testable by itself and shown by
/// `inspect --plan`. What follows them, the shape plan, is ExecutorProgram::Prepare's.
#include <optional>

#include "runtime/plan_ir/executor_program.h"

namespace infer {

struct CompileState {
  CompileState(Graph g, const KernelList& list, const CompileOptions& o, CompileFn fn)
      : graph(std::move(g)), kernels(list), options(o), compile(std::move(fn)) {}
  std::optional<Graph> graph;  ///< until it is partitioned
  const KernelList& kernels;
  const CompileOptions& options;
  CompileFn compile;         ///< of subgraphs
  std::optional<Plan> plan;  ///< from then on
  BodyPrograms bodies;
  std::vector<StepInfo> infos;  ///< with `chosen`, once kernels are chosen
  std::vector<StepKernels> chosen;
};

struct CompileStep {
  std::string_view name;
  std::string_view help;
  int level;  ///< from which CompileOptions::level on
  Status (*run)(CompileState& state);
};

/// In the order in which they run.
std::span<const CompileStep> CompileSteps();

/// Of these, what a device in front of the CPU wants: halves, composed operators and quantization
/// as `kernels` take them; then attention, groups on integers, weights as constants, epilogues and
/// chains, where one of `kernels` takes them.
Status RewriteForKernels(Graph& graph, const KernelList& kernels, const CompileOptions& options);
Status GroupForKernels(Plan& plan, const KernelList& kernels, const CompileOptions& options);

/// Runs them, and shows the state after each to options.observe.
Status RunCompileSteps(CompileState& state);

}  // namespace infer
