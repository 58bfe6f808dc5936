#pragma once
/// What the rules for LayerNormalization and RMSNormalization have in common: which axes a mean
/// goes over, and which operands may scale and shift the rows.
#include "passes/rewrite/rule.h"

namespace infer {

/// First of the trailing axes that a ReduceMean, or a GlobalAveragePool, goes over; nullopt for
/// other axes.
std::optional<int64_t> FirstTrailingAxis(const Node& reduce);
/// The one axis, not the last, that a ReduceMean goes over; nullopt for other axes.
std::optional<int64_t> SingleInnerAxis(const Node& reduce);

/// Ones of the shape of the rows of `x` from `axis` on, or a single one (it broadcasts) where an
/// extent is not known.
Value* RowOnes(const Value& x, int64_t axis, DType type, PatchBuilder& b);
/// `v` as scale or bias of the rows of `x` from `axis` (negative: from the end) on: as it is, a
/// constant without leading ones, or a constant number repeated. InvalidModel else, also where an
/// extent of `x` is not known: 1 would broadcast to that of `v`, as no normalization does. Of a
/// normalization give the result, whose extents the operand that it has may tell.
Result<Value*> RowOperand(Value* v, const Value& x, int64_t axis, PatchBuilder& b);

}  // namespace infer
