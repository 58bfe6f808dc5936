#include "lib/onnx/left_out.h"

#include "lib/ir/control_flow.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {

bool TakesGraph(const OpDef& def, const std::string& attr) {
  const AttrDef* a = def.FindAttr(attr);
  return a && a->kind == AttrKind::kGraph;
}

Status LeftOut::CheckGraphs(const SourceGraph::Item& item, const OpDef& def) {
  for (const auto& [attr, sub] : item.subgraphs) {
    if (TakesGraph(def, attr)) continue;
    if (!ctx_.options.lenient || def.FindAttr(attr))
      return InvalidModel(IsControlFlow(def) ? Cat("a graph as attribute '", attr, "'")
                                             : "a graph attribute that the operator does not take");
    Tell(*item.source.node, def, attr);
  }
  return {};
}

void LeftOut::DropUnknown(const onnx::NodeProto& node, const OpDef& def, AttrMap& attrs) {
  if (!ctx_.options.lenient) return;
  for (auto it = attrs.begin(); it != attrs.end();) {
    if (def.FindAttr(it->first)) {
      ++it;
      continue;
    }
    Tell(node, def, it->first);
    it = attrs.erase(it);
  }
}

void LeftOut::Tell(const onnx::NodeProto& node, const OpDef& def, const std::string& attr) {
  ctx_.warnings.push_back(Cat(where_, Describe(node), ": ", def.name, " has no attribute '", attr,
                              "'; it is left out"));
}

}  // namespace infer::onnx_io
