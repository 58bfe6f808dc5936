#include "lib/onnx/graph_writer.h"

#include <functional>

#include "lib/onnx/value_info.h"
#include "lib/onnx/writer.h"

namespace infer::onnx_io {

Result<WrittenModel> WriteGraph(const Graph& g, const Opsets& imported,
                                const WriteOptions& options) {
  WriteState state{g.ops(), imported, options};
  onnx::GraphProto& out = state.out.graph;
  Writer writer(state, g, Writer::Place::kMain, *out.mutable_node());
  INFER_TRY(writer.Run({}));
  out.set_name(g.name().empty() ? "graph" : g.name());
  for (const Value* v : g.inputs()) FillInterface(*v, writer.NameOf(v), *out.add_input());
  for (size_t i = 0; i < g.outputs().size(); ++i)
    FillInterface(*g.outputs()[i], writer.output_names()[i], *out.add_output());
  FillValueInfo(g, {g.outputs().begin(), g.outputs().end()}, out);
  std::vector<PendingTensor> initializers = std::move(writer.constants());
  std::move(state.out.initializers.begin(), state.out.initializers.end(),
            std::back_inserter(initializers));
  // What a lower form took over as an attribute is read no more.
  std::unordered_set<std::string> read;
  const std::function<void(const onnx::GraphProto&)> collect = [&](const onnx::GraphProto& graph) {
    for (const auto& x : graph.output()) read.insert(x.name());
    for (const auto& n : graph.node()) {
      read.insert(n.input().begin(), n.input().end());
      for (const auto& a : n.attribute())
        if (a.has_g()) collect(a.g());
    }
  };
  collect(out);
  std::erase_if(initializers, [&](const PendingTensor& t) { return !read.contains(t.name); });
  INFER_TRY(writer.RestoreKept(initializers, out));
  state.out.initializers = std::move(initializers);
  state.out.opsets[""] = options.opset;
  return std::move(state.out);
}

Result<onnx::FunctionProto> FunctionOf(const OpDef& def, const AttrMap& attrs,
                                       const OpRegistry& ops, int64_t opset) {
  const Opsets none;
  WriteState state{ops, none, {opset}};
  onnx::FunctionProto out;
  INFER_TRY(WriteFunction(state, def, attrs, out));
  return out;
}

}  // namespace infer::onnx_io
