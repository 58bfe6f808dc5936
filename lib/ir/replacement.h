#pragma once
/// What stands in for a node is known by its name, and its result by the old one's.
#include "lib/ir/editor.h"

namespace infer {

/// The name of `n` and those of the nodes that it came from.
NodeOptions NamesOf(const Node& n);

/// `made` takes the readers of n's only result, its name (an output of the graph keeps it anyway)
/// and what is known of its type; `n` is erased. InvalidModel: the types contradict each other.
Status ReplaceNode(GraphEditor& editor, Node& n, Value* made);

}  // namespace infer
