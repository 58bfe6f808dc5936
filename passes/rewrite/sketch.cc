#include "passes/rewrite/sketch.h"

#include <algorithm>
#include <unordered_map>

#include "lib/ir/editor.h"
#include "lib/support/strings.h"
#include "passes/rewrite/verify_match.h"

namespace infer {

Sketch Sketch::Of(const Graph& g) {
  Sketch s;
  const auto names = [](const std::vector<Value*>& values) {
    std::vector<std::string> out;
    for (const Value* v : values) out.push_back(v ? v->name() : std::string());
    return out;
  };
  for (const Value* v : g.inputs()) s.inputs.push_back({v->name(), v->type(), v->type()});
  for (const auto& v : g.values())
    if (v->is_constant()) s.constants.push_back({v->name(), *v->constant()});
  for (const auto& n : g.nodes()) {
    Op& op = s.nodes.emplace_back(Op{&n->def(), names(n->inputs()), names(n->outputs())});
    op.attrs = n->attrs();
    op.num_captures = n->num_captures();
    for (const auto& [attr, sub] : n->subgraphs())
      op.subgraphs.emplace_back(attr, std::make_shared<const Graph>(sub->Clone()));
  }
  s.outputs = names(g.outputs());
  return s;
}

Result<Graph> Sketch::Build(const OpRegistry& ops) const {
  Graph g(ops, "g");
  GraphEditor e(g);
  std::unordered_map<std::string, Value*> values;
  for (const Input& i : inputs) values[i.name] = e.AddInput(i.name, i.type);
  for (const NamedTensor& c : constants) values[c.name] = e.AddConstant(c.tensor, c.name);
  for (const Op& op : nodes) {
    std::vector<Value*> operands;
    for (const std::string& name : op.inputs) {
      const auto it = values.find(name);
      if (!name.empty() && it == values.end())
        return InvalidModel(Cat("'", name, "' is not there"));
      operands.push_back(name.empty() ? nullptr : it->second);
    }
    NodeOptions options{.output_names = op.outputs, .num_captures = op.num_captures};
    for (const auto& [attr, sub] : op.subgraphs)
      options.subgraphs.emplace_back(attr, std::make_unique<Graph>(sub->Clone()));
    INFER_ASSIGN(Node * node, e.AddNode(*op.def, operands, op.attrs, std::move(options)));
    for (size_t i = 0; i < op.outputs.size(); ++i)
      if (!op.outputs[i].empty()) values[op.outputs[i]] = node->output(i);
  }
  for (const std::string& name : outputs) {
    const auto it = values.find(name);
    if (it == values.end()) return InvalidModel(Cat("'", name, "' is not there"));
    e.MarkOutput(it->second);
  }
  e.Sweep();
  return g;
}

Result<std::vector<Datum>> Sketch::Values(const OpRegistry& ops, uint64_t seed) const {
  Graph g(ops, "inputs");
  GraphEditor e(g);
  for (const Input& i : inputs) e.AddInput(i.name, i.value);
  return RandomInputs(g, seed);
}

bool Sketch::IsConstant(std::string_view name) const {
  return std::any_of(constants.begin(), constants.end(),
                     [&](const NamedTensor& c) { return c.name == name; });
}

std::vector<std::string> Sketch::Results() const {
  std::vector<std::string> results;
  for (const Op& op : nodes)
    for (const std::string& name : op.outputs)
      if (!name.empty()) results.push_back(name);
  return results;
}

void Sketch::Replace(const std::string& name, const std::string& with, size_t first,
                     bool outputs_too) {
  for (size_t i = first; i < nodes.size(); ++i)
    std::replace(nodes[i].inputs.begin(), nodes[i].inputs.end(), name, with);
  if (outputs_too) std::replace(outputs.begin(), outputs.end(), name, with);
}

}  // namespace infer
