#pragma once
/// Subgraphs on their way into a node. Internal to lib/onnx.
#include <memory>
#include <string>
#include <vector>

#include "lib/ir/graph.h"

namespace infer::onnx_io {

/// Captures are the inputs behind the first `own_inputs`, the same for all subgraphs of a node.
struct Subgraph {
  std::string attr;
  std::unique_ptr<Graph> graph;
  size_t own_inputs;
};

/// The order in which the operator declares its graph attributes.
void OrderAsDeclared(const OpDef& def, std::vector<Subgraph>& subgraphs);
/// Removes captures that no subgraph reads: a lifted form may read less than the old one did.
void DropUnreadCaptures(std::vector<Subgraph>& subgraphs, std::vector<Value*>& captured);

}  // namespace infer::onnx_io
