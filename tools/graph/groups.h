#pragma once
/// Groups of a picture: scopes that names spell ("/encoder/layer.0/Add"), what a node replaced, and
/// parts of what is still too large. Internal to tools/graph.
#include "tools/graph/picture.h"

namespace infer {

/// Puts nodes [first, end) of the picture, which lie in group `base`, into groups of their scopes.
/// Scopes of one node, and scopes that hold nothing but one scope, get no group of their own.
void GroupByScope(Picture& p, size_t first, size_t end, int base);

/// Puts the removed nodes that one node replaced, where they are several, into a group beside it.
void GroupReplaced(Picture& p);

/// Cuts groups of more than kMaxChildren nodes and groups into parts in the order of the program,
/// where the fewest values cross.
void CutLargeGroups(Picture& p);
constexpr size_t kMaxChildren = 150;

/// The child of `group` that holds the node, or is it; {kNode, -1}: none.
Child ChildHolding(const Picture& p, int group, int node);

/// Children, wires and rows of every group, once all nodes have their group.
void LayOutGroups(Picture& p);

}  // namespace infer
