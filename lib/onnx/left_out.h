#pragma once
/// Attributes and graphs that an operator does not take: what ImportOptions::lenient leaves out.
#include "lib/onnx/graph_builder.h"

namespace infer::onnx_io {

/// Whether `attr` is a body of the operator.
bool TakesGraph(const OpDef& def, const std::string& attr);

/// Leaves out, with a warning to ctx.warnings that begins with `where`.
class LeftOut {
 public:
  LeftOut(BuildContext& ctx, std::string where) : ctx_(ctx), where_(std::move(where)) {}

  /// Graphs as attributes of `item` that the operator does not take. InvalidModel: the import is
  /// not lenient, or the operator takes something else by this name.
  Status CheckGraphs(const SourceGraph::Item& item, const OpDef& def);
  /// Attributes that no form of the operator has; what older forms had, lifting took.
  void DropUnknown(const onnx::NodeProto& node, const OpDef& def, AttrMap& attrs);

 private:
  void Tell(const onnx::NodeProto& node, const OpDef& def, const std::string& attr);

  BuildContext& ctx_;
  std::string where_;
};

}  // namespace infer::onnx_io
