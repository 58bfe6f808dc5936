#pragma once
/// Groups in pieces. Whether a kernel takes a group is asked twice: of what is known when it is
/// compiled, and of the extents of a run, or of what a library has for this processor. A group that
/// all kernels refuse then runs as smaller steps.
#include "runtime/plan_ir/groups/grouping.h"

namespace infer {

/// Fills PlanStep::parts of every group: each node alone, and what some kernel accepts of the main
/// node with what directly follows it, and of what stands behind it. Call it when the plan is
/// linked and groups no longer change.
void AddParts(Plan& plan, AcceptsStep accepts);

/// The parts that begin with node `at` of the group, as positions in `step.parts`: [first, second).
std::pair<size_t, size_t> PartsFrom(const PlanStep& step, size_t at);

/// How a refusal begins that tells the parts which a group runs in.
inline constexpr std::string_view kInParts = "in parts: ";

/// "Conv+Relu, Add": the operators of parts.
std::string OperatorsOf(const PlanStep& step, std::span<const size_t> parts);

}  // namespace infer
