#include "lib/ir/body.h"

#include <algorithm>
#include <mutex>

#include "lib/ir/body_cache.h"
#include "lib/ir/editor.h"
#include "lib/ir/eval.h"
#include "lib/ir/inference.h"
#include "lib/ir/text.h"
#include "lib/ops/gradients/gradients.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Attributes with the schema's defaults filled in, so that every @name has a value.
AttrMap WithDefaults(const OpDef& def, const AttrMap& attrs) {
  AttrMap all = attrs;
  for (const AttrDef& a : def.attrs) all.try_emplace(std::string(a.name), a.default_value);
  return all;
}

}  // namespace

Result<std::shared_ptr<const Graph>> BodyOf(const OpDef& def, const AttrMap& attrs,
                                            const OpRegistry& ops) {
  // A cache of immutable values: the only state in lib/ that outlives a call.
  static std::mutex mutex;
  static BodyCache cache(4096);
  const AttrMap all = WithDefaults(def, attrs);
  const BodyCache::Key key{&def, &ops, HashOf(all)};
  {
    std::lock_guard lock(mutex);
    if (auto body = cache.Find(key, all)) return body;
  }
  // Without the lock: a body may hold operators that have bodies.
  auto parsed = ParseGraph(def.body, ops, {.parameters = &all});
  if (!parsed.ok()) {
    // Which operator a body applies may be for the model to say: then it may say nonsense.
    const std::string what = Cat("body of ", def.name, ": ", parsed.status().message());
    return def.body.find("= @") != std::string_view::npos ? InvalidModel(what) : Internal(what);
  }
  auto body = std::make_shared<const Graph>(*std::move(parsed));
  std::lock_guard lock(mutex);
  return cache.Add(key, all, std::move(body));
}

namespace {

/// The body of a call with types, from those of the operands on.
Result<Graph> TypedBody(const OpCall& call, const OpRegistry& ops) {
  INFER_ASSIGN(auto body, BodyOf(call.def(), call.attrs(), ops));
  Graph g = body->Clone();
  GraphEditor editor(g);
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (!call.has_input(i)) continue;
    editor.SetType(g.inputs()[i], call.type(i));
    editor.SetElements(g.inputs()[i], call.elements(i));
    if (const Tensor* t = call.constant(i)) editor.SetKnown(g.inputs()[i], *t);
  }
  INFER_TRY(InferTypes(g).In(call.def().name));
  return g;
}

}  // namespace

Status InferBody(OpCall& call, const OpRegistry& ops) {
  INFER_ASSIGN(const Graph g, TypedBody(call, ops));
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    call.SetOut(i, g.outputs()[i]->type());
    if (g.outputs()[i]->elements()) call.SetElements(i, *g.outputs()[i]->elements());
  }
  return {};
}

Cost CostOfNode(const Node& node, const OpRegistry& ops) {
  const OpCall call = CallOf(node);
  Cost cost = CostOf(call);
  if (node.def().cost || node.def().body.empty()) return cost;
  const auto body = TypedBody(call, ops);
  if (!body.ok()) return cost;
  const auto is_static = [](const Value* v) {
    return !v || (v->type().is_tensor() && v->tensor_type().is_static());
  };
  for (const auto& n : body->nodes())
    if (std::all_of(n->inputs().begin(), n->inputs().end(), is_static) &&
        std::all_of(n->outputs().begin(), n->outputs().end(), is_static))
      cost.flops += CostOfNode(*n, ops).flops;
  return cost;
}

Result<Graph> DecompositionOf(const OpCall& call, const OpRegistry& ops) {
  INFER_ASSIGN(const std::string text, call.def().decompose(call));
  const AttrMap no_parameters;
  auto parsed = ParseGraph(text, ops, {.parameters = &no_parameters});
  if (!parsed.ok())
    return Internal(Cat("decomposition of ", call.def().name, ": ", parsed.status().message()));
  Graph g = *std::move(parsed);
  GraphEditor editor(g);
  size_t next = 0;
  for (size_t i = 0; i < call.num_inputs(); ++i)
    if (call.has_input(i)) {
      Value* input = g.inputs()[next++];
      editor.SetType(input, call.type(i));
      editor.SetElements(input, call.elements(i));
      if (const Tensor* t = call.constant(i)) editor.SetKnown(input, *t);
    }
  INFER_TRY(InferTypes(g).In(Cat("decomposition of ", call.def().name)));
  return g;
}

Result<Graph> PartsOf(const Node& node, const OpRegistry& ops, std::vector<Value*>& operands) {
  if (!node.def().body.empty()) {
    INFER_ASSIGN(const auto body, BodyOf(node.def(), node.attrs(), ops));
    operands = node.inputs();
    operands.resize(body->inputs().size());
    return body->Clone();
  }
  if (!node.def().decompose) return Unsupported("it is not made of other operators");
  for (Value* v : node.inputs())
    if (v) operands.push_back(v);
  return DecompositionOf(CallOf(node), ops);
}

Result<Graph> GradientOf(const OpCall& call, std::span<const size_t> wanted,
                         const OpRegistry& ops) {
  const GradientFn rule = FindGradient(call.def());
  if (!rule) return Unsupported("there is no rule for its gradient");
  INFER_ASSIGN(const std::string text, rule(call, wanted));
  const AttrMap no_parameters;
  auto parsed = ParseGraph(text, ops, {.parameters = &no_parameters});
  if (!parsed.ok())
    return Internal(Cat("gradient of ", call.def().name, ": ", parsed.status().message()));
  return parsed;
}

Result<std::vector<Datum>> EvaluateBody(const OpDef& def, const AttrMap& attrs,
                                        const OpRegistry& ops,
                                        std::span<const Datum* const> inputs) {
  INFER_ASSIGN(auto body, BodyOf(def, attrs, ops));
  std::vector<Datum> args(body->inputs().size());
  for (size_t i = 0; i < args.size() && i < inputs.size(); ++i)
    if (inputs[i]) args[i] = *inputs[i];
  return Evaluate(*body, args);
}

}  // namespace infer
