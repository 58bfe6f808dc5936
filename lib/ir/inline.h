#pragma once
/// A graph put into another one: what bodies, decompositions and gradients become nodes by.
#include "lib/ir/editor.h"

namespace infer {

/// Adds the nodes of `body` where the editor stands, with operands[i] for its input i (nullptr:
/// omitted), and returns what its outputs are. Types are inferred anew from the operands.
/// `fused_from`: the names that the new nodes stand for. InvalidModel when the operands do not fit;
/// then nodes that were added already stay, unread.
Result<std::vector<Value*>> InlineGraph(GraphEditor& editor, const Graph& body,
                                        const std::vector<Value*>& operands,
                                        const std::vector<std::string>& fused_from = {});

}  // namespace infer
