#include "quant/convert/widen.h"

#include <algorithm>
#include <array>
#include <set>

#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/ir/roles.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/convert/layers.h"

namespace infer {
namespace {

bool IsHalf(DType t) { return t == DType::kF16 || t == DType::kBF16; }
bool IsHalf(const Value* v) { return v && v->type().is_tensor() && IsHalf(v->dtype()); }

/// Constants, and attributes that name an element type or hold a tensor, of the graph and its
/// bodies. Types do not follow yet.
void WidenWhatIsStored(Graph& g) {
  GraphEditor editor(g);
  for (const auto& v : g.values())
    if (v->is_constant() && IsHalf(v.get()))
      editor.SetConstant(v.get(), v->constant()->Cast(DType::kF32));
  constexpr std::array<std::string_view, 2> kTypeAttrs = {"to", "dtype"};
  for (const auto& n : g.nodes()) {
    std::vector<std::pair<std::string, AttrValue>> changed;
    for (const auto& [name, value] : n->attrs()) {
      const auto* number = std::get_if<int64_t>(&value);
      const auto* tensor = std::get_if<Tensor>(&value);
      if (number && std::count(kTypeAttrs.begin(), kTypeAttrs.end(), name) > 0 &&
          IsHalf(static_cast<DType>(*number)))
        changed.emplace_back(name, static_cast<int64_t>(DType::kF32));
      if (tensor && tensor->defined() && IsHalf(tensor->dtype()))
        changed.emplace_back(name, tensor->Cast(DType::kF32));
    }
    for (auto& [name, value] : changed) editor.SetAttr(*n, name, std::move(value));
    for (size_t i = 0; i < n->subgraphs().size(); ++i)
      WidenWhatIsStored(*editor.mutable_subgraph(*n, i));
  }
}

/// Casts from f32 to f32, where one to or from 16 bits was.
Status DropCasts(Graph& g) {
  GraphEditor editor(g);
  for (auto it = g.nodes().begin(); it != g.nodes().end();) {
    Node& n = **it++;
    for (size_t i = 0; i < n.subgraphs().size(); ++i)
      INFER_TRY(DropCasts(*editor.mutable_subgraph(n, i)));
    if (!n.Is("Cast") || !IsF32(n.input(0)) || !IsF32(n.output())) continue;
    if (n.output()->is_output()) continue;
    INFER_TRY(editor.ReplaceAllUses(n.output(), n.input(0)));
    editor.Erase(n);
  }
  return {};
}

/// The first node with a result in 16 bits; nullptr: there is none.
const Node* LeftOver(const Graph& g, const std::set<const Node*>& casts) {
  for (const auto& n : g.nodes()) {
    for (const Value* v : n->outputs())
      if (IsHalf(v) && !casts.contains(n.get())) return n.get();
    for (const auto& [attr, sub] : n->subgraphs())
      if (const Node* inner = LeftOver(*sub, casts)) return inner;
  }
  return nullptr;
}

Status WidenAll(Graph& g) {
  std::vector<DType> outputs;
  for (const Value* v : g.outputs()) outputs.push_back(IsHalf(v) ? v->dtype() : DType::kUndefined);
  GraphEditor editor(g);
  WidenWhatIsStored(g);
  const std::vector<Value*> inputs = g.inputs();
  for (Value* v : inputs) {
    if (!IsHalf(v) || v->uses().empty()) continue;
    if (!g.nodes().empty()) editor.InsertBefore(*g.nodes().front());
    const std::vector<Use> uses = v->uses();
    INFER_ASSIGN(Value * wide,
                 AddCast(editor, v, DType::kF32, editor.FreshName(Cat(v->name(), "_f32"))));
    for (const Use& use : uses) editor.SetOperand(*use.user, use.operand, wide);
  }
  INFER_TRY(InferTypes(g));
  INFER_TRY(DropCasts(g));
  editor.InsertAtEnd();
  std::set<const Node*> casts;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value* v = g.outputs()[i];
    if (outputs[i] == DType::kUndefined || !IsF32(v)) continue;
    INFER_ASSIGN(Value * narrow,
                 AddCast(editor, v, outputs[i], editor.FreshName(Cat(v->name(), "_f16"))));
    INFER_TRY(editor.SetOutput(i, narrow));
    casts.insert(narrow->producer());
  }
  if (const Node* n = LeftOver(g, casts))
    return Unsupported(Cat(Describe(*n), " computes in 16 bits whatever it is given"));
  return Verify(g);
}

}  // namespace

bool HasHalfLayers(const Graph& g) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [](const auto& n) {
    const Value* weights = WeightLayoutOf(*n) ? n->input(1) : nullptr;
    if (weights && weights->is_constant() && IsHalf(weights)) return true;
    return std::any_of(n->subgraphs().begin(), n->subgraphs().end(),
                       [](const auto& sub) { return HasHalfLayers(*sub.second); });
  });
}

Status WidenFloats(Graph& g) {
  Graph wide = g.Clone();
  const Status s = WidenAll(wide);
  if (!s.ok()) return Unsupported(Cat("the model cannot be widened to f32: ", s.message()));
  g = std::move(wide);
  return {};
}

}  // namespace infer
