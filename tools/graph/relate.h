#pragma once
/// Which nodes of two graphs are the same, and which replaced which.
#include <string>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

struct Relation {
  /// By the position of a node in its graph: the node of the other graph that it is; -1: none.
  std::vector<int> same_in_after, same_in_before;
  /// Of a node of `after` that is none of `before`: the nodes that it replaced.
  std::vector<std::vector<int>> replaced;
};

/// By the names that a rewritten node stands for (Node::fused_from), by names of nodes and results,
/// and where names differ by operator and operands. Only nodes of one operator are the same.
Relation Relate(const Graph& before, const Graph& after);

/// The differences between two nodes of one operator: "attribute axis: 1 -> 2", "result y: f32[1]
/// -> f16[1]". Empty: nothing that the picture shows.
std::vector<std::string> Differences(const Node& before, const Node& after);

/// An attribute as text; lists and texts that are long end with "...".
std::string AttributeText(const AttrValue& value);

}  // namespace infer
