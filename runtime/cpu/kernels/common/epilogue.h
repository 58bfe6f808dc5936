#pragma once
/// What follows the main node inside a step: activations, a residual, a bias.
#include "runtime/cpu/onednn/onednn.h"

namespace infer {

struct Epilogue {
  std::vector<onednn::PostOp> ops;
  std::vector<const Node*> nodes;  ///< of `ops`, one each
  int residual = -1;               ///< operand added by kSum; the result accumulates into it
  int bias = -1;                   ///< operand [C] of the last dimension, added first
};

/// The post-ops of the step's nodes after the main one; Unsupported names the node that has none.
/// With `may_bias` an Add of a vector over the last dimension right after the main node is a bias.
/// Unsupported, too, for a gate (runtime/plan_ir/groups/gate.h) before the main node, unless
/// `may_gate`.
Result<Epilogue> DecodeEpilogue(const StepCall& call, bool may_bias, bool may_gate = false);

}  // namespace infer
