#pragma once
/// Writes a layer as two products: which layers can be, and the rewriting.
#include "quant/prune/factors.h"

namespace infer {

/// Why the layers that read these weights cannot become two products; "" where they can.
std::string WhyNotSplit(const Graph& g, const PrunableWeights& w);

/// Every reader of the weights multiplies by `f.right` first, as it reads its operand (strides and
/// padding of a 1x1 convolution; of matrices by MatMul, which every opset has), then by `f.left`,
/// with its own factor and bias; the shift is not written. Layers that share the weights share both
/// factors. Pre: WhyNotSplit is "".
Status SplitLayer(Graph& g, const PrunableWeights& w, const LowRankFactors& f);

}  // namespace infer
