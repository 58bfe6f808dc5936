#pragma once
/// Where the buffers of a shape plan lie in its arena.
#include "runtime/plan_ir/shape_plan.h"

namespace infer {

/// Sets the offsets of the arena buffers that launches use, by their lives, and the plan's memory
/// figures.
void PlanArena(ShapePlan& plan);

}  // namespace infer
