#pragma once
/// Reverse-mode differentiation of a graph: adds the nodes that compute gradients, in our own
/// operators, so that a backward graph is fused, planned and run like any other. Each operator's
/// rule stands in lib/ops/gradients/gradients.h; here they are put together. Rounding to codes is
/// passed straight through (lib/ops/gradients/gradients_codes.cc).
#include <string>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

/// The gradients of graph output `loss`, a floating-point tensor of one element, with respect to
/// inputs or constants of `g`, by name: in their order, each of the shape of its value; nullptr
/// where the loss does not depend on it. The values are no outputs of the graph yet.
///
/// Operators without a rule are replaced by what they are made of (decomposition or body), so that
/// nodes of `g` and their results may be others afterwards; inputs and outputs keep their names.
///
/// Linear in the nodes. Deterministic. InvalidArgument: no such output or value, or one that is not
/// floating-point. Unsupported, with the node's name: an operator without a rule that is not made
/// of others, values whose extents are not known (lib/ir/inference.h: SpecializeInputs), bodies of
/// control flow, codes of QuantizeLinear that another operator than DequantizeLinear reads. On
/// failure `g` is valid and computes what it did.
Result<std::vector<Value*>> AddGradients(Graph& g, size_t loss,
                                         const std::vector<std::string>& wanted);

}  // namespace infer
