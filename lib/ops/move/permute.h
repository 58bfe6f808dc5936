#pragma once
/// The same call with its operands' axes in another order: what a pass that moves transpositions
/// has to change in a node. Unary and element-wise operators need nothing of this.
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/ops/op_def.h"

namespace infer {

/// Axis i of the operand that the call has now is axis perm[i] of the one that comes instead of it.
using Perm = std::vector<int64_t>;

struct PermutedCall {
  std::vector<size_t> data;  ///< the operands that come in another order
  AttrMap attrs;             ///< all attributes, axes mapped
  /// Operands that get another constant: axes, pads. One that was absent is added.
  std::map<size_t, Tensor> replaced;
  Perm out_perm;  ///< of all results: axis i is axis out_perm[i] of what the permuted call gives
  /// The operator of the standard domain that does it in the other order; "": the same one.
  std::string_view op = {};
};

/// Helpers by which operator families state OpDef::permute. `to` is filled in as for a call that
/// only the order of operand 0 changes in; nullopt: the operator depends on the order, or on
/// something that is not known. Pre: operand 0 is there, and has perm's rank.
using PermuteResult = std::optional<PermutedCall>;
PermuteResult PermuteAxis(const OpCall& call, const Perm& perm, PermutedCall to);
/// Axes of operand 1, which is constant; they go where `keep` is off.
PermuteResult PermuteListedAxes(const OpCall& call, const Perm& perm, PermutedCall to, bool keep);

/// The axis as it was, once attribute `axis` of `to` names where it comes to lie.
std::optional<int> MapAxis(const OpCall& call, const Perm& perm, PermutedCall& to);
/// The perm of results that lack the axes `gone`.
Perm WithoutAxes(const Perm& perm, const std::vector<int>& gone);
/// perm[axis] for each.
std::vector<int64_t> MappedAxes(const std::vector<int>& axes, const Perm& perm);

}  // namespace infer
