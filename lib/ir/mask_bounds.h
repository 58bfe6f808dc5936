#pragma once
/// What can stand in the mask that is added to the scores of an attention.
#include "lib/ir/graph.h"

namespace infer {

/// Whether some row of `mask` can consist of the lowest finite number of its type (and -inf) alone:
/// exporters hide keys by it (torch.finfo(dtype).min), and a sequence that is all padding hides all
/// of them. The Softmax of such a row is uniform; ONNX Runtime's Attention takes the row for one
/// without keys and makes 0 of it. Follows the operators that masks are made of; a float operand of
/// the graph may hold anything, the result of other operators is taken for a bias.
bool MayHideAllByLowest(const Value& mask);
/// The node is the standard's Attention with a mask that may do so.
bool IsAttentionHiddenByLowest(const Node& n);

}  // namespace infer
