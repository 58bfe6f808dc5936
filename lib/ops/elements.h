#pragma once
/// Data propagation through element-wise operators on small integer tensors: what Shape, Gather,
/// Add, Div, Concat, Reshape chains compute stays known as integers or expressions over symbols.
#include "lib/ops/common.h"

namespace infer {

/// One element from two. Unknown (Dim()) where nothing certain can be said.
using DimFn = Dim (*)(const Dim&, const Dim&);
Dim AddDims(const Dim& a, const Dim& b);
Dim SubDims(const Dim& a, const Dim& b);
Dim MulDims(const Dim& a, const Dim& b);
Dim DivDims(const Dim& a, const Dim& b);  ///< toward zero, as Div does
Dim ModDims(const Dim& a, const Dim& b);  ///< sign of b
Dim MinDims(const Dim& a, const Dim& b);
Dim MaxDims(const Dim& a, const Dim& b);
/// Comparisons and logic give 1, 0 or unknown.
Dim EqualDims(const Dim& a, const Dim& b);
Dim LessDims(const Dim& a, const Dim& b);
Dim GreaterDims(const Dim& a, const Dim& b);
Dim LessOrEqualDims(const Dim& a, const Dim& b);
Dim GreaterOrEqualDims(const Dim& a, const Dim& b);
Dim AndDims(const Dim& a, const Dim& b);
Dim OrDims(const Dim& a, const Dim& b);

/// Certainly >= 0: a number that is, or an expression without negative terms over extents.
bool IsNonNegative(const Dim& d);
/// elements(i), also of bool constants.
std::optional<std::vector<Dim>> KnownElements(const OpCall& call, size_t i);
/// Elements of f(a, b) with broadcasting between one element and n; nullopt when they do not match.
std::optional<std::vector<Dim>> ZipElements(const std::vector<Dim>& a, const std::vector<Dim>& b,
                                            DimFn f);
/// Sets the elements of output 0 to the left fold of f over all inputs, if they are known and the
/// output has rank <= 1.
void PropagateElements(OpCall& call, DimFn f);

template <DimFn kFn>
Status InferElementwise(OpCall& call) {
  INFER_TRY(InferBroadcast(call));
  if (!IsFloat(call.dtype(0))) PropagateElements(call, kFn);
  return {};
}
template <DimFn kFn>
Status InferPredicateOf(OpCall& call) {
  INFER_TRY(InferPredicate(call));
  if (!IsFloat(call.dtype(0))) PropagateElements(call, kFn);
  return {};
}

}  // namespace infer
