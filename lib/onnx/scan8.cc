#include "lib/onnx/scan8.h"

#include "lib/ir/editor.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {

Status ScanOverBatch(const OpDef& def, const std::vector<Value*>& operands, bool has_lengths,
                     const std::vector<Value*>& captured, AttrMap& attrs,
                     std::vector<Subgraph>& subgraphs, const OpRegistry& ops) {
  if (subgraphs.empty()) return InvalidModel("Scan: body is missing");
  auto sample = std::make_unique<Graph>(ops, "sample");
  GraphEditor editor(*sample);
  std::vector<Value*> inputs;
  for (const Value* v : operands) {
    if (!v || !v->type().is_tensor()) return InvalidModel("Scan: an operand is no tensor");
    TensorType t = v->type().tensor();
    if (t.shape.has_rank()) {
      if (t.shape.rank() == 0) return InvalidModel("Scan: an operand has no batch axis");
      t.shape = Shape(std::vector<Dim>(t.shape.dims().begin() + 1, t.shape.dims().end()));
    }
    inputs.push_back(editor.AddInput(v->name(), std::move(t)));
  }
  const auto count = attrs.find("num_scan_inputs");
  const auto* scans = count == attrs.end() ? nullptr : std::get_if<int64_t>(&count->second);
  Value *length = nullptr, *extent = nullptr;
  if (has_lengths) {
    Value* scalar = inputs.back();
    inputs.pop_back();
    if (!scans || *scans < 1 || static_cast<size_t>(*scans) > inputs.size())
      return InvalidModel("Scan: bad num_scan_inputs");
    Value* zero = editor.AddConstant(Tensor::Int64s({0}));
    INFER_ASSIGN(length, editor.Add("Unsqueeze", {scalar, zero}));
    INFER_ASSIGN(extent, editor.Add("Shape", {inputs.back()}, {{"end", int64_t{1}}}));
    for (size_t i = inputs.size() - static_cast<size_t>(*scans); i < inputs.size(); ++i) {
      INFER_ASSIGN(inputs[i], editor.Add("Slice", {inputs[i], zero, length, zero}));
    }
  }
  const size_t states = inputs.size() - static_cast<size_t>(scans ? *scans : 0);
  for (const Value* v : captured) inputs.push_back(editor.AddInput(v->name(), v->type()));
  if (auto it = attrs.find("directions"); it != attrs.end()) {
    attrs["scan_input_directions"] = std::move(it->second);
    attrs.erase("directions");
  }
  Subgraph& body = subgraphs.front();
  NodeOptions options;
  options.num_captures = captured.size();
  options.num_outputs = body.graph->outputs().size();
  options.subgraphs.emplace_back(std::move(body.attr), std::move(body.graph));
  INFER_ASSIGN(Node * n, editor.AddNode(def, std::move(inputs), attrs, std::move(options)));
  const std::vector<Value*> results(n->outputs().begin(), n->outputs().end());
  for (size_t i = 0; i < results.size(); ++i) {
    Value* v = results[i];
    if (length && i >= states) {
      INFER_ASSIGN(Value * missing, editor.Add("Sub", {extent, length}));
      INFER_ASSIGN(Value * rest, editor.Add("Shape", {v}, {{"start", int64_t{1}}}));
      INFER_ASSIGN(Value * dims, editor.Add("Concat", {missing, rest}, {{"axis", int64_t{0}}}));
      INFER_ASSIGN(Value * zeros, editor.Add("ConstantOfShape", {dims}));
      INFER_ASSIGN(zeros, editor.Add("CastLike", {zeros, v}));
      INFER_ASSIGN(v, editor.Add("Concat", {v, zeros}, {{"axis", int64_t{0}}}));
    }
    editor.MarkOutput(v);
  }
  subgraphs.front() = {"body", std::move(sample), operands.size()};
  attrs = {{"num_scan_inputs", static_cast<int64_t>(operands.size())}};
  return {};
}

}  // namespace infer::onnx_io
