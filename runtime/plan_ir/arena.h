#pragma once
/// Where the buffers of a shape plan lie in its arena.
#include "runtime/plan_ir/shape_plan.h"

namespace infer {

/// Sets the offsets of the arena buffers that launches use, by their lives, so that each has its
/// room, and the plan's figures of arenas.
void PlanArena(ShapePlan& plan);

/// Of constants that launches use.
int64_t ConstantBytes(const ShapePlan& plan);

}  // namespace infer
