#include "runtime/plan_ir/late_graph.h"

#include <set>
#include <unordered_map>

#include "lib/ir/editor.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/specialize.h"

namespace infer {
namespace {

/// All nodes of the late steps, each once, in graph order.
std::vector<const Node*> NodesOf(const Plan& plan, const LateSteps& late) {
  std::set<const Node*> wanted;
  for (size_t s : late.steps) wanted.insert(plan.steps[s].nodes.begin(), plan.steps[s].nodes.end());
  std::vector<const Node*> nodes;
  for (const auto& n : plan.graph.nodes())
    if (wanted.count(n.get())) nodes.push_back(n.get());
  return nodes;
}

class LateBuilder {
 public:
  LateBuilder(const Plan& plan, const ShapePlan& shapes)
      : plan_(plan), shapes_(shapes), graph_(plan.graph.ops(), "late"), editor_(graph_) {}

  Result<Graph> Build() {
    for (int id : shapes_.frame->late.inputs) {
      const auto i = static_cast<size_t>(id);
      const ValueType& type = plan_.values[i]->type();
      made_[plan_.values[i]] = editor_.AddInput(plan_.values[i]->name(), type);
    }
    for (const Node* n : NodesOf(plan_, shapes_.frame->late)) INFER_TRY(Add(*n));
    for (int id : shapes_.frame->late.outputs)
      editor_.MarkOutput(made_.at(plan_.values[static_cast<size_t>(id)]));
    editor_.Sweep();
    return std::move(graph_);
  }

 private:
  Status Add(const Node& n) {
    std::vector<Value*> operands;
    for (const Value* v : n.inputs()) {
      INFER_ASSIGN(Value * operand, Operand(v));
      operands.push_back(operand);
    }
    NodeOptions options;
    options.name = n.name();
    options.num_captures = n.num_captures();
    options.fused_from = n.fused_from();
    for (const Value* v : n.outputs()) options.output_names.push_back(v ? v->name() : "");
    for (const auto& [name, g] : n.subgraphs())
      options.subgraphs.emplace_back(name, std::make_unique<Graph>(g->Clone()));
    INFER_ASSIGN(Node* const copy,
                 editor_.AddNode(n.def(), std::move(operands), n.attrs(), std::move(options)));
    for (size_t o = 0; o < n.outputs().size(); ++o) {
      const Value* v = n.output(o);
      if (!v || !copy->output(o)) continue;
      // What the model declares holds here, too.
      editor_.SetType(copy->output(o), v->type());
      made_[v] = copy->output(o);
    }
    return {};
  }

  Result<Value*> Operand(const Value* v) {
    if (!v) return static_cast<Value*>(nullptr);
    if (const auto it = made_.find(v); it != made_.end()) return it->second;
    const int id = plan_.id(v);
    const Tensor* known = Given(shapes_, id);
    INFER_CHECK(known);
    Tensor elements = *known;
    if (plan_.constant(id)) {
      INFER_ASSIGN(elements, plan_.Elements(id));
    }
    return made_[v] = editor_.AddConstant(std::move(elements), v->name());
  }

  const Plan& plan_;
  const ShapePlan& shapes_;
  Graph graph_;
  GraphEditor editor_;
  std::unordered_map<const Value*, Value*> made_;
};

}  // namespace

Result<Graph> LateGraph(const Plan& plan, const ShapePlan& shapes) {
  return LateBuilder(plan, shapes).Build();
}

std::string LateKey(const Plan& plan, const ShapePlan& shapes) {
  std::string key;
  for (size_t s : shapes.frame->late.steps) key += Cat(s, ",");
  for (const Node* n : NodesOf(plan, shapes.frame->late))
    for (const Value* v : n->inputs()) {
      if (!v || plan.constant(v)) continue;
      const Tensor& t = shapes.value(plan.id(v)).known;
      if (!t.defined()) continue;
      key += Cat(plan.id(v), ToString(t.type()), ":");
      key.append(reinterpret_cast<const char*>(t.raw()), static_cast<size_t>(t.byte_size()));
    }
  return key;
}

}  // namespace infer
