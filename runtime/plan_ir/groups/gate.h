#pragma once
/// What squeeze-and-excitation (Hu et al., 2018) leaves before a 1x1 convolution: the channels of
/// its operand, each times a number. A product that packs its operand multiplies on the way.
#include <optional>

#include "lib/pattern/rule.h"
#include "runtime/plan_ir/groups/grouping.h"

namespace infer {

struct Gate {
  int x = -1, by = -1;  ///< operands of the step: [N, C, H, W] and [1 or N, C, 1, 1]
};

/// Conv(Mul(x, by)).
const Rule& GateRule();

/// The Mul before the main Conv of the step; nullopt where none stands there.
std::optional<Gate> GateOf(const StepCall& call);

/// Puts a Mul of one reader into the step of that Conv where some kernel accepts both.
void FoldGates(Plan& plan, AcceptsStep accepts);

}  // namespace infer
