#pragma once
/// What can stand in the mask that is added to the scores of an attention.
#include "lib/ir/graph.h"
#include "lib/ops/notes.h"

namespace infer {

/// Whether some row of `mask` can consist of the lowest finite number of its type (and -inf) alone:
/// exporters hide keys by it (torch.finfo(dtype).min), and a sequence that is all padding hides all
/// of them. The Softmax of such a row is uniform; ONNX Runtime's Attention takes the row for one
/// without keys and makes 0 of it. Follows the operators that masks are made of; a float operand of
/// the graph may hold anything, the result of other operators is taken for a bias.
bool MayHideAllByLowest(const Value& mask);
/// The node is the standard's Attention with a mask that may do so.
bool IsAttentionHiddenByLowest(const Node& n);

/// Whether some row of `mask` can consist of -inf alone, or of false. The standard's Attention
/// makes 0 of the query, a Softmax of the scores, as ONNX Runtime's own operators have it, NaN.
bool MayHideAllByInfinity(const Value& mask);
/// The node is the standard's Attention, a query of it may be left without keys, and 0 must come
/// out then: its source did not make NaN of it (kWithoutKeys).
bool MustMakeZeroWithoutKeys(const Node& n);

}  // namespace infer
