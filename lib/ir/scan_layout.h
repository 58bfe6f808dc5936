#pragma once
/// What inference and evaluation of operators with subgraphs share: how a Scan's operands lie.
#include "lib/ir/control_flow.h"

namespace infer {

/// The subgraph of an attribute, or nullptr.
const std::unique_ptr<Graph>* Find(const Subgraphs& subgraphs, std::string_view name);

/// Axes and directions of a Scan's operands after its states, and of its stacked results.
struct ScanLayout {
  size_t states, scans;
  std::vector<int64_t> in_axes, in_directions, out_axes, out_directions;
};

/// InvalidModel where the attributes do not fit the numbers of operands and of the body's outputs.
Result<ScanLayout> LayoutOf(const AttrMap& attrs, size_t num_inputs, size_t num_body_outputs);

}  // namespace infer
