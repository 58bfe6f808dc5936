#pragma once
/// A part of a graph as a graph of its own: what computes some values from others.
#include "lib/ir/editor.h"
#include "lib/support/function_ref.h"

namespace infer {

struct Region {
  explicit Region(const OpRegistry& ops) : graph(ops, "region") {}
  Graph graph;                        ///< values have the names that they have outside
  std::vector<const Value*> inputs;   ///< outside, of graph.inputs()
  std::vector<const Value*> outputs;  ///< outside, of graph.outputs()
};

/// The nodes that compute `targets` from values for which `is_known` holds, and constants.
/// Unsupported where a graph input is not known, or more than 256 nodes are between.
Result<Region> RegionBetween(const OpRegistry& ops, std::span<const Value* const> targets,
                             FunctionRef<bool(const Value&)> is_known);

}  // namespace infer
