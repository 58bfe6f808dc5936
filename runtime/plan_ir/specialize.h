#pragma once
/// What the shapes of the inputs decide before anything is launched: the type of every value, small
/// values that need no step any more, the cost of each step. Internal to runtime/plan_ir.
#include "runtime/plan_ir/shape_plan.h"

namespace infer {

/// Fills input_dims, types, known and cost of `out`. InvalidArgument or InvalidModel when the
/// shapes do not fit the graph.
Status Specialize(const Plan& plan, std::span<const Dims> input_dims, ShapePlan& out);

/// Can lie in a planned buffer: a tensor of static shape, not of strings.
bool IsPlannable(const ValueType& type);
/// Bytes of the plain form; 0 where not plannable.
int64_t PlannedBytes(const ValueType& type);
/// The value's tensor where no step has to make it; nullptr where one has.
const Tensor* KnownOrConstant(const Plan& plan, const ShapePlan& shapes, int id);

}  // namespace infer
