#pragma once
/// What the rules about attention share: views of operands, without touching the graph.
#include "passes/rewrite/rule.h"

namespace infer {

/// Extents `i` of a and `j` of b (negative: from the end) are the same for certain. Pre: ranks
/// known.
bool SameDim(const Value& a, int i, const Value& b, int j);
/// v with its last two axes exchanged; a transposition that v is made by is taken back or merged.
Result<Value*> WithLastTwoExchanged(Value* v, PatchBuilder& b);
/// v, made by a Reshape from four axes [B,H,S,D] to [B*H,S,D]: what it is made from; else nullptr.
Value* BeforeHeadsWereFolded(const Value& v);
/// A transposition of four axes that exchanges the middle two.
bool ExchangesMiddle(const Value& v);

/// The Attention node again with other operands and attributes: also its further results that
/// something reads. The pattern of the node must be Shared().
Result<Value*> AttentionAgain(const Node& attention, std::vector<Value*> inputs, AttrMap attrs,
                              PatchBuilder& b);

/// [dim] as a value: an extent of a graph input that `v` is computed from, the sum of two, or with
/// a number added. InvalidModel where no inputs say it.
Result<Value*> ExtentFromInputs(const Dim& dim, Value* v, PatchBuilder& b);

}  // namespace infer
