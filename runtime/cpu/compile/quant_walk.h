#pragma once
/// Helpers of the passes over quantized graphs.
#include <algorithm>

#include "lib/ir/graph.h"

namespace infer {

inline bool HasQuantization(const Graph& g) {
  return std::any_of(g.nodes().begin(), g.nodes().end(),
                     [](const auto& n) { return n->Is(Trait::kQuantization); });
}

/// Calls f for each node; it may erase the node and those before it.
template <typename F>
Status ForEachNode(Graph& g, F&& f) {
  for (auto it = g.nodes().begin(); it != g.nodes().end();) {
    Node& n = **it++;
    INFER_TRY(f(n));
  }
  return {};
}

}  // namespace infer
