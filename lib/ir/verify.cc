#include "lib/ir/verify.h"

#include <array>
#include <cmath>
#include <unordered_set>

#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

Status CheckSsa(const Graph& g) {
  std::unordered_set<const Value*> defined(g.inputs().begin(), g.inputs().end(), g.values().size());
  for (const auto& n : g.nodes()) {
    for (const Value* v : n->inputs())
      if (v && !v->is_constant() && !defined.contains(v))
        return InvalidModel(Cat(Describe(*n), ": reads '", v->name(), "' before it is defined"));
    for (const Value* v : n->outputs())
      if (v && !defined.insert(v).second)
        return InvalidModel(Cat("'", v->name(), "' is defined twice"));
  }
  for (const Value* v : g.outputs())
    if (!v->is_constant() && !defined.contains(v))
      return InvalidModel(Cat("output '", v->name(), "' is never defined"));
  return {};
}

Status CheckUses(const Graph& g) {
  size_t operands = 0, uses = 0;
  for (const auto& n : g.nodes()) {
    for (const Value* v : n->inputs()) operands += v != nullptr;
    for (size_t i = 0; i < n->outputs().size(); ++i)
      if (const Value* v = n->output(i);
          v && (v->producer() != n.get() || v->producer_index() != i))
        return InvalidModel(Cat("'", v->name(), "' does not know its producer"));
  }
  for (const auto& v : g.values()) {
    uses += v->uses().size();
    for (const Use& u : v->uses())
      if (u.operand >= u.user->inputs().size() || u.user->inputs()[u.operand] != v.get())
        return InvalidModel(Cat("use list of '", v->name(), "' names a stranger"));
  }
  if (operands != uses) return InvalidModel(Cat(operands, " operands, ", uses, " uses"));
  return {};
}

Status CheckNames(const Graph& g) {
  for (const auto& v : g.values())
    if (v->name().empty() || g.FindValue(v->name()) != v.get())
      return InvalidModel(Cat("value name '", v->name(), "' is empty or not unique"));
  return {};
}

Status CheckSchemas(const Graph& g) {
  for (const auto& n : g.nodes()) {
    if (n->def().retired()) return InvalidModel(Cat(Describe(*n), ": a retired operator"));
    Status s = CheckSchema(CallOf(*n));
    if (!s.ok()) return std::move(s).In(Describe(*n));
    for (const AttrDef& a : n->def().attrs)
      if (a.kind == AttrKind::kGraph && a.required && !n->subgraph(a.name))
        return InvalidModel(Cat(Describe(*n), ": subgraph '", a.name, "' is missing"));
  }
  return {};
}

Status CheckTypes(const Graph& g) {
  for (const auto& n : g.nodes()) {
    OpCall call = CallOf(*n);
    std::vector<const ValueType*> captures;
    for (size_t i = n->inputs().size() - n->num_captures(); i < n->inputs().size(); ++i)
      captures.push_back(&n->inputs()[i]->type());
    Status s = InferCall(call, n->subgraphs(), captures, g.ops());
    if (!s.ok()) return std::move(s).In(Describe(*n));
    for (size_t i = 0; i < n->outputs().size(); ++i) {
      const Value* v = n->output(i);
      if (v && !v->type().Refines(call.out_type(i)))
        return InvalidModel(Cat(Describe(*n), ": stored ", ToString(v->type()), ", inferred ",
                                ToString(call.out_type(i))));
    }
  }
  return {};
}

Status CheckLive(const Graph& g) {
  std::unordered_set<const Node*> live;
  live.reserve(g.num_nodes());
  std::vector<const Node*> stack;
  auto reach = [&](const Value* v) {
    if (v && v->producer() && live.insert(v->producer()).second) stack.push_back(v->producer());
  };
  for (const Value* v : g.outputs()) reach(v);
  while (!stack.empty()) {
    const Node* n = stack.back();
    stack.pop_back();
    for (const Value* v : n->inputs()) reach(v);
  }
  for (const auto& n : g.nodes())
    if (!live.contains(n.get())) return InvalidModel(Cat(Describe(*n), ": no output needs it"));
  return {};
}

/// A constant scale is positive and finite.
Status CheckScale(const Node& n, const Value* scale) {
  const Tensor* t = scale && scale->type().is_tensor() ? scale->constant() : nullptr;
  if (!t) return {};
  for (int64_t i = 0; i < t->num_elements(); ++i)
    if (!(t->At(i) > 0) || !std::isfinite(t->At(i)))
      return InvalidModel(Cat(Describe(n), ": scale[", i, "] is ", t->At(i)));
  return {};
}

Status CheckQuant(const Graph& g) {
  for (const auto& n : g.nodes()) {
    INFER_TRY(CheckScale(*n, ScaleOfResult(*n)));
    if (!IsQuantizeOrDequantize(*n)) continue;
    const Value* scale = n->input(1);
    INFER_TRY(CheckScale(*n, scale));
    if (!scale || !scale->type().is_tensor()) continue;
    // Where both shapes are known; what is no constant yet may become one by folding.
    const Value* zero = n->input(2);
    if (!zero || !zero->type().is_tensor() || !zero->shape().is_static() ||
        !scale->shape().is_static())
      continue;
    // Quantizers write one value as [] and as [1], and mix them.
    const bool single = NumElements(scale->shape().static_dims()) == 1 &&
                        NumElements(zero->shape().static_dims()) == 1;
    if (!single && !(zero->shape() == scale->shape()))
      return InvalidModel(Cat(Describe(*n), ": zero point ", zero->shape().ToString(), ", scale ",
                              scale->shape().ToString()));
  }
  return {};
}

Status CheckControl(const Graph& g) {
  for (const auto& n : g.nodes())
    for (const auto& [name, sub] : n->subgraphs()) {
      if (sub->inputs().size() < n->num_captures())
        return InvalidModel(Cat(Describe(*n), ": ", name, " lacks inputs for captures"));
      Status s = Verify(*sub, {.types = false});
      if (!s.ok()) return std::move(s).In(Cat(Describe(*n), ": ", name));
    }
  return {};
}

constexpr std::array<Invariant, 8> kInvariants = {{
    {"ssa", CheckSsa},
    {"uses", CheckUses},
    {"names", CheckNames},
    {"schema", CheckSchemas},
    {"types", CheckTypes},
    {"live", CheckLive},
    {"quant", CheckQuant},
    {"control", CheckControl},
}};

}  // namespace

std::span<const Invariant> Invariants() { return kInvariants; }

Status Verify(const Graph& g, const VerifyOptions& options) {
  for (const Invariant& i : kInvariants) {
    if (i.name == "types" && !options.types) continue;
    if (i.name == "live" && !options.live) continue;
    INFER_TRY(i.check(g).In(i.name));
  }
  return {};
}

}  // namespace infer
