#include "tools/infer_bench/predict/body_runs.h"

#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/ir/roles.h"
#include "lib/ir/scan_layout.h"

namespace infer::bench {
namespace {

std::optional<int64_t> KnownInt(const Value* v) {
  if (!v) return std::nullopt;
  const Tensor* t = v->known();
  if (!t || t->num_elements() != 1) return std::nullopt;
  return t->IntAt(0);
}

BodyRuns OfIf(const Node& node) {
  const Graph *then_graph = node.subgraph("then_branch"),
              *else_graph = node.subgraph("else_branch");
  if (const auto condition = KnownInt(node.input(0)))
    return {{{*condition ? then_graph : else_graph, 1}}};
  return {{{then_graph, 0.5}, {else_graph, 0.5}}};
}

/// The body hands on the condition that it was given, or gives true.
bool NeverEndsEarly(const Graph& body) {
  const Value* v = body.outputs()[0];
  while (v->producer() && IsIdentity(*v->producer())) v = v->producer()->input(0);
  return v == body.inputs()[1] || KnownInt(v).value_or(0) != 0;
}

BodyRuns OfLoop(const Node& node) {
  const Graph* body = node.subgraph("body");
  const auto trips = KnownInt(node.input(0)), starts = KnownInt(node.input(1));
  if ((trips && *trips <= 0) || (starts && *starts == 0)) return {};
  if (trips && (starts || !node.input(1)) && NeverEndsEarly(*body))
    return {{{body, static_cast<double>(*trips)}}};
  return {{{body, 1}}, true};
}

BodyRuns OfScan(const Node& node) {
  const Graph* body = node.subgraph("body");
  const size_t operands = node.inputs().size() - node.num_captures();
  const auto layout = LayoutOf(node.attrs(), operands, body->outputs().size());
  if (layout.ok() && layout->scans > 0) {
    const ValueType& scanned = node.input(layout->states)->type();
    if (scanned.is_tensor() && scanned.tensor().is_static()) {
      const Dims dims = scanned.tensor().shape.static_dims();
      const int64_t axis = layout->in_axes[0];
      const int64_t trips = dims[static_cast<size_t>(axis < 0 ? axis + std::ssize(dims) : axis)];
      if (trips == 0) return {};
      return {{{body, static_cast<double>(trips)}}};
    }
  }
  return {{{body, 1}}, true};
}

}  // namespace

BodyRuns BodyRunsOf(const Node& node) {
  if (node.Is("If")) return OfIf(node);
  if (node.Is("Loop")) return OfLoop(node);
  if (node.Is("Scan")) return OfScan(node);
  BodyRuns once{.at_least = true};
  for (const auto& [name, body] : node.subgraphs()) once.bodies.push_back({body.get(), 1});
  return once;
}

Result<Graph> BodyOf(const Node& node, const Graph& subgraph) {
  Graph g = subgraph.Clone();
  GraphEditor editor(g);
  const std::vector<Value*> inputs = g.inputs();
  const size_t own = inputs.size() - node.num_captures();
  const size_t operands = node.inputs().size() - node.num_captures();
  for (size_t i = own; i < inputs.size(); ++i) {
    const Value* outer = node.input(operands + i - own);
    if (outer && outer->is_constant() && !inputs[i]->is_output())
      editor.SetConstant(inputs[i], *outer->constant());
  }
  INFER_TRY(InferTypes(g));
  return g;
}

}  // namespace infer::bench
