#pragma once
/// Gradients of operators, as graphs in text form over our own operators: rules of reverse-mode
/// differentiation, one for each operator, in the form that decompositions have. passes/gradient
/// puts them together. Adding one: docs/adding-a-gradient.md.
#include <span>
#include <string>

#include "lib/ops/op_def.h"

namespace infer {

/// The graph that computes, for one call, the gradients of a scalar with respect to operands:
///
///     graph gradient(x0, x1, y0, g0) -> (d0, d1) { ... }
///
/// Its inputs are the operands that are there (`x<i>`), the results with a gradient (`y<i>`) and
/// the gradients of the scalar with respect to them (`g<i>`), in this order; its results are the
/// gradients of `wanted`, positions among the operands in ascending order. A gradient may have the
/// shape of the broadcast operand: whoever asks sums it to the operand's own (passes/gradient).
///
/// Pre: operands and results are tensors of static extents, wanted ones floating-point or codes
/// that QuantizeLinear made. A gradient of codes is a floating-point tensor: that of the real
/// numbers. Unsupported: an operand that has no gradient, or a case without a rule; the message
/// says which.
using GradientFn = Result<std::string> (*)(const OpCall& call, std::span<const size_t> wanted);

/// Whether results of element type `t` have a gradient: floating-point ones, and codes.
inline bool ResultHasGradient(const OpDef& def, DType t) {
  return IsFloat(t) || def.traits.Has(Trait::kQuantize);
}

/// The rule of an operator; nullptr: it has none. Then its decomposition or body is differentiated,
/// where it has one.
GradientFn FindGradient(const OpDef& def);

}  // namespace infer
