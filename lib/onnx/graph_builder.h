#pragma once
/// SourceGraph -> Graph: lifts operators to their canonical forms, makes captures explicit, merges
/// declared types with inferred ones. Internal to lib/onnx.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/ir/graph.h"
#include "lib/onnx/source_graph.h"
#include "lib/onnx/tensor_proto.h"

namespace infer::onnx_io {

/// What we lack, collected over the whole model so that it can be reported at once.
class UnsupportedList {
 public:
  /// One thing lacking ("operator Foo (domain x, opset 3): why; way out") and a node that needs it.
  void Add(const std::string& what, const std::string& node);
  bool empty() const { return nodes_.empty(); }
  /// "2 things are not supported:\n  what: node, node, ... (12 nodes)".
  Status ToStatus() const;

 private:
  std::map<std::string, std::vector<std::string>> nodes_;
};

/// What building shares over all graphs of a model.
struct BuildContext {
  const OpRegistry& ops;
  const TensorReader& tensors;
  const ImportOptions& options;
  UnsupportedList unsupported = {};
  std::vector<std::string> warnings = {};
};

/// The newest opset that we know of a domain; 0 for a domain that we do not know.
int64_t NewestOpset(const OpRegistry& ops, const std::string& domain);

/// InvalidModel when the graph is broken. What is unsupported goes to ctx.unsupported, and the
/// graph then has holes: look there first.
Result<Graph> BuildGraph(const SourceGraph& source, BuildContext& ctx);

}  // namespace infer::onnx_io
