#include "lib/ir/inline.h"

#include <unordered_map>

namespace infer {

Result<std::vector<Value*>> InlineGraph(GraphEditor& editor, const Graph& body,
                                        const std::vector<Value*>& operands,
                                        const std::vector<std::string>& fused_from) {
  if (operands.size() != body.inputs().size())
    return Internal("a graph is put into another with another number of operands");
  std::unordered_map<const Value*, Value*> is;
  for (size_t i = 0; i < operands.size(); ++i) is[body.inputs()[i]] = operands[i];
  const auto in = [&](const Value* v) -> Value* {
    if (!v) return nullptr;
    const auto [it, is_new] = is.try_emplace(v, nullptr);
    if (is_new) it->second = editor.AddConstant(*v->constant());
    return it->second;
  };
  for (const auto& n : body.nodes()) {
    std::vector<Value*> inputs;
    for (const Value* v : n->inputs()) inputs.push_back(in(v));
    NodeOptions options;
    options.num_captures = n->num_captures();
    options.fused_from = fused_from;
    for (const Value* v : n->outputs())
      options.output_names.push_back(v ? editor.FreshName(v->name()) : "");
    for (const auto& [attr, graph] : n->subgraphs())
      options.subgraphs.emplace_back(attr, std::make_unique<Graph>(graph->Clone()));
    INFER_ASSIGN(const Node* made,
                 editor.AddNode(n->def(), std::move(inputs), n->attrs(), std::move(options)));
    for (size_t i = 0; i < n->outputs().size(); ++i)
      if (n->output(i)) is[n->output(i)] = made->output(i);
  }
  std::vector<Value*> outputs;
  for (const Value* v : body.outputs()) outputs.push_back(in(v));
  return outputs;
}

}  // namespace infer
