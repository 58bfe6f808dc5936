#pragma once
/// A graph before and after rewriting as one HTML page that needs nothing else: what changed,
/// blocks that became one node, times, search. The page itself is graph_page.html.
#include <map>
#include <string>

#include "lib/ir/graph.h"

namespace infer {

/// Milliseconds by the name of a node's first result.
using NodeTimes = std::map<std::string, double>;

struct GraphPage {
  std::string title;
  const Graph& before;
  const Graph& after;  ///< its nodes say by fused_from() what they stand for
  NodeTimes before_ms = {}, after_ms = {};
};

/// Subgraphs are told by their number of nodes only.
std::string ToHtml(const GraphPage& page);

}  // namespace infer
