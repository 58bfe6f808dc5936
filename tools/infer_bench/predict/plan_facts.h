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
  bool late = false;         ///< its shapes hang on data, or it runs bodies: cannot be predicted
  int copies = 0;            ///< of operands into other layouts
  int64_t copied_bytes = 0;  ///< read and written by them
  Dims scores;               ///< of the softmax in an attention, [.., queries, keys]; empty: none
};

struct PlanFacts {
  std::vector<StepFacts> steps;
  int64_t constant_bytes = 0, arena_bytes = 0;
  int64_t program_bytes() const { return constant_bytes + arena_bytes; }
  int launches = 0;  ///< of a run, copies included
};

struct PlannedModel {
  std::shared_ptr<const Program> program;
  PlanFacts facts;
};

/// Compiles for the cpu backend and keeps what the plan says. InvalidArgument: an input has open
/// dimensions.
Result<PlannedModel> PlanModel(const Graph& g, const DeviceOptions& options);

/// "f32[1,64,56,56]"; known = false for anything else.
OperandFacts OperandOf(std::string_view type);

}  // namespace infer::bench
