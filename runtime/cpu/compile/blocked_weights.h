#pragma once
/// Weights of few bits that a file has as DequantizeLinear, given to the kernels of MatMulNBits and
/// GatherBlockQuantized.
#include "lib/ir/graph.h"

namespace infer {

/// MatMul and Gemm by, and Gather from, a DequantizeLinear of constant codes (also transposed)
/// become MatMulNBits and GatherBlockQuantized where the codes have 4 bits, or 8 and a scale per
/// block: read as they are they are a half to an eighth of what f32 weights are. 8 bits with a
/// scale per column or tensor are left to integer products and folding. Returns how many readers
/// changed.
Result<int> TakeBlockedWeights(Graph& g);

}  // namespace infer
