#pragma once
/// The weights of operators that multiply by them in a form of their own: as codes with zero
/// points, packed in blocks of few bits, fused with what follows. What a zero is there, and which
/// axes are channels; for whoever counts zeros. Operators that state a WeightLayout need none of
/// this.
#include <vector>

#include "lib/ops/op_def.h"

namespace infer {

struct PackedWeights {
  size_t operand = 0;  ///< where they stand
  /// Unpacked, f32: codes less their zero points, or the weights themselves. 0 where a weight is 0.
  Tensor numbers;
  WeightLayout layout;  ///< of `numbers`; a stack of matrices is [..., inputs, outputs]
  bool coded = false;
};

/// Those weights of the call that are constant with their zero points, in the order of operands;
/// none for an operator that has no such weights. InvalidModel: zero points that do not fit.
Result<std::vector<PackedWeights>> PackedWeightsOf(const OpCall& call);

}  // namespace infer
