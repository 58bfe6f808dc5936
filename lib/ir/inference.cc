#include "lib/ir/inference.h"

#include "lib/ir/body.h"
#include "lib/ir/control_flow.h"
#include "lib/ir/editor.h"
#include "lib/ir/known_values.h"
#include "lib/ops/declared_rank.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

static_assert(kRankLimit == kMaxRank);

/// Puts numbers for symbols into a shape; sets `found` when one of them occurs.
Shape Bind(const Shape& shape, const std::map<std::string, int64_t>& symbols, bool* found) {
  if (!shape.has_rank()) return shape;
  std::vector<Dim> dims = shape.dims();
  for (Dim& d : dims)
    if (auto it = symbols.find(d.symbol()); it != symbols.end()) {
      d = it->second;
      *found = true;
    }
  return Shape(std::move(dims));
}

/// Operands that give extents (sizes, pads, ends) can make them negative, whatever the operator.
Status CheckExtents(const OpCall& call) {
  for (size_t i = 0; i < call.num_outputs(); ++i) {
    const ValueType& t = call.out_type(i);
    if (!t.is_tensor() || !t.tensor().shape.has_rank()) continue;
    if (t.tensor().shape.rank() > kMaxRank)
      return InvalidModel(Cat(call.def().name, ": output ", i, " would have rank ",
                              t.tensor().shape.rank(), ", over the limit of ", kMaxRank));
    if (!t.tensor().shape.CanExist())
      return InvalidModel(Cat(call.def().name, ": output ", i, " would be ",
                              t.tensor().shape.ToString(), ", which no tensor can be"));
  }
  return {};
}

}  // namespace

Status InferCall(OpCall& call,
                 const std::vector<std::pair<std::string, std::unique_ptr<Graph>>>& subgraphs,
                 std::span<const ValueType* const> captures, const OpRegistry& ops,
                 KnownOutputs* known) {
  const OpDef& def = call.def();
  INFER_TRY(CheckSchema(call));
  if (IsControlFlow(def)) return InferControlFlow(call, subgraphs, captures);
  if (def.infer) {
    INFER_TRY(def.infer(call));
  } else if (!def.body.empty()) {
    INFER_TRY(InferBody(call, ops));
  } else {
    return Internal(Cat(def.name, " has no inference"));
  }
  INFER_TRY(CheckExtents(call));
  KnownOutputs made = EvaluateKnown(call, ops);
  if (known) *known = std::move(made);
  return {};
}

Status InferTypes(Graph& g) {
  GraphEditor editor(g);
  for (const auto& n : g.nodes()) INFER_TRY(editor.Reinfer(*n));
  return {};
}

Status RefineTypes(Graph& g) {
  GraphEditor editor(g);
  for (const auto& n : g.nodes()) {
    std::vector<ValueType> stored(n->outputs().size());
    std::vector<std::optional<std::vector<Dim>>> elements(n->outputs().size());
    KnownOutputs known(n->outputs().size());
    for (size_t i = 0; i < stored.size(); ++i)
      if (const Value* v = n->outputs()[i]) {
        stored[i] = v->type();
        elements[i] = v->elements();
        if (v->known()) known[i] = *v->known();
      }
    INFER_TRY(editor.Reinfer(*n));
    for (size_t i = 0; i < stored.size(); ++i) {
      Value* v = n->outputs()[i];
      if (!v) continue;
      auto met = Meet(v->type(), stored[i]);
      if (!met.ok()) return met.status().In(Describe(*n));
      editor.SetType(v, *std::move(met));
      if (!v->elements()) editor.SetElements(v, std::move(elements[i]));
      if (!v->known()) editor.SetKnown(v, std::move(known[i]));
    }
  }
  return {};
}

/// InferTypes for extents that the user chose: what does not fit is the user's, not the model's.
static Status InferChosen(Graph& g) {
  Status s = InferTypes(g);
  return s.code() == Code::kInvalidModel ? InvalidArgument(s.message()) : s;
}

Status SpecializeInputs(Graph& g, const std::map<std::string, Dims>& shapes) {
  GraphEditor editor(g);
  for (const auto& [name, dims] : shapes) {
    Value* v = nullptr;
    for (Value* input : g.inputs())
      if (input->name() == name) v = input;
    if (!v) {
      std::vector<std::string> names;
      for (Value* input : g.inputs()) names.push_back(input->name());
      return InvalidArgument(
          Cat("no input '", name, "'; the model's inputs are: ", Join(names, ", ")));
    }
    if (!v->type().is_tensor()) return InvalidArgument(Cat("input '", name, "' is not a tensor"));
    auto met = Meet(Shape(dims), v->shape());
    if (!met.ok())
      return InvalidArgument(
          Cat("input '", name, "' has shape ", v->shape().ToString(), ", not ", ToString(dims)));
    editor.SetType(v, TensorType{v->dtype(), *std::move(met)});
  }
  return InferChosen(g);
}

Status BindSymbols(Graph& g, const std::map<std::string, int64_t>& symbols) {
  GraphEditor editor(g);
  for (const auto& [name, number] : symbols) {
    bool found = false;
    for (Value* v : g.inputs()) {
      if (!v->type().is_tensor()) continue;
      Shape bound = Bind(v->shape(), {{name, number}}, &found);
      editor.SetType(v, TensorType{v->dtype(), std::move(bound)});
    }
    if (!found) return InvalidArgument(Cat("no input has a dimension named '", name, "'"));
  }
  return InferChosen(g);
}

}  // namespace infer
