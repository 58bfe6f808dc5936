#pragma once
/// PlanReuse: what one shape plan of a program leaves for the next. Where only some extents differ,
/// as between two steps of a decoder whose caches grow, most steps are as they were. Internal to
/// runtime/plan_ir. Not thread-safe.
#include "runtime/plan_ir/specialize.h"

namespace infer {

/// The kernel that took a step whole.
struct StepAnswer {
  size_t run = 0;               ///< the plan that it is of, or that found it unchanged
  int lanes = 0;                ///< of the thread that asked
  std::vector<Layout> layouts;  ///< in which the operands lay
  size_t kernel = 0;            ///< which candidate
  Prepared prepared;
  std::vector<std::string> refusals;  ///< of the candidates before it
};

struct PlanReuse {
  explicit PlanReuse(const Plan& plan) : specializer(plan), answers(plan.steps.size()) {}
  Specializer specializer;
  size_t run = 0;                   ///< plans begun
  std::vector<StepAnswer> answers;  ///< by step
};

}  // namespace infer
