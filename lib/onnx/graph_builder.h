#pragma once
/// SourceGraph -> Graph: lifts operators to their canonical forms, makes captures explicit, merges
/// declared types with inferred ones. Internal to lib/onnx.
#include <string>
#include <vector>

#include "lib/ir/graph.h"
#include "lib/onnx/source_graph.h"
#include "lib/onnx/tensor_proto.h"
#include "lib/onnx/unsupported.h"

namespace infer::onnx_io {

/// What building shares over all graphs of a model.
struct BuildContext {
  const OpRegistry& ops;
  const TensorReader& tensors;
  const ImportOptions& options;
  UnsupportedList unsupported = {};
  std::vector<std::string> warnings = {};
};

/// InvalidModel when the graph is broken. What is unsupported goes to ctx.unsupported, and the
/// graph then has holes: look there first.
Result<Graph> BuildGraph(const SourceGraph& source, BuildContext& ctx);

}  // namespace infer::onnx_io
