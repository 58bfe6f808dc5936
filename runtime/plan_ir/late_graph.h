#pragma once
/// Steps whose shapes hang on data, as a graph of their own: it is compiled once, and planned when
/// their operands are there.
#include "runtime/plan_ir/shape_plan.h"

namespace infer {

/// Inputs and outputs in the order of `shapes.late`; what is known of other operands is constant.
Result<Graph> LateGraph(const Plan& plan, const ShapePlan& shapes);
/// Equal where the graphs are.
std::string LateKey(const Plan& plan, const ShapePlan& shapes);

}  // namespace infer
