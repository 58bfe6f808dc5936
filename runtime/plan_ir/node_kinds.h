#pragma once
/// Nodes that differ in nothing but their names and operands, such as those of a decoder's layers:
/// from equal facts of operands inference draws the same for all of them. Internal to
/// runtime/plan_ir.
#include "runtime/plan_ir/plan.h"

namespace infer {

/// By node of the plan's graph, in its order: the number of its kind; -1: a node that is alone,
/// with a body or with a constant result. Nodes of one kind have one operator, equal attributes, as
/// many operands, and results of which the graph says the same.
std::vector<int> NodeKinds(const Plan& plan);

}  // namespace infer
