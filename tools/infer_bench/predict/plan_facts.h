#pragma once
/// What a compiled model tells of its steps before it has run: what a prediction is made from.
#include <string>
#include <vector>

#include "tools/common/model_options.h"

namespace infer::bench {

struct OperandFacts {
  DType dtype = DType::kUndefined;
  Dims dims;
  bool constant = false;
  bool known = false;  ///< a tensor of static shape; else dtype and dims say nothing
  int64_t elements() const;
  int64_t bytes() const;
};

struct StepFacts {
  StepInfo info;
  std::vector<OperandFacts> operands, results;
  int launches = 0;          ///< of kernels; 0: a view, or its value is known without a run
  bool late = false;         ///< its shapes hang on data, or it runs bodies
  int copies = 0;            ///< of operands into other layouts
  int64_t copied_bytes = 0;  ///< read and written by them
  Dims scores;               ///< of the softmax in an attention, [.., queries, keys]; empty: none
};

struct BodyFacts;

struct PlanFacts {
  std::vector<StepFacts> steps;
  std::vector<BodyFacts> bodies;  ///< of steps that run subgraphs; none of one that never runs any
  int64_t constant_bytes = 0, arena_bytes = 0;  ///< of all steps and bodies
  int64_t program_bytes() const { return constant_bytes + arena_bytes; }
  int launches = 0;  ///< of a run, copies included
};

/// A subgraph of step `step`, as a plan of its own.
struct BodyFacts {
  size_t step = 0;
  double runs = 1;        ///< of it in a run of the step (body_runs.h)
  bool at_least = false;  ///< how many hangs on data
  bool known = true;      ///< else it has no plan: its shapes hang on data
  PlanFacts plan;
};

struct PlannedModel {
  std::shared_ptr<const Program> program;
  PlanFacts facts;
};

/// Compiles for the cpu backend, then the subgraphs of control flow each by itself, and keeps what
/// the plans say. InvalidArgument: an input has open dimensions.
Result<PlannedModel> PlanModel(const Graph& g, const DeviceOptions& options);

/// "f32[1,64,56,56]"; known = false for anything else.
OperandFacts OperandOf(std::string_view type);

}  // namespace infer::bench
