#include "quant/target/forms.h"

#include <algorithm>
#include <set>

#include "lib/ir/editor.h"
#include "lib/ir/roles.h"
#include "quant/target/checks.h"

namespace infer {
namespace {

constexpr size_t kMostValues = 64;

/// No element of `v` hangs on an input of the graph; extents may.
bool IsMadeOfConstants(const Value& v) {
  if (v.is_constant()) return false;
  std::vector<const Value*> seen = {&v};
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i]->is_constant()) continue;
    const Node* n = seen[i]->producer();
    if (!n || seen.size() > kMostValues || n->Is(Trait::kRandom)) return false;
    if (n->Is("Shape") || n->Is("Size")) continue;
    for (const Value* x : n->inputs())
      if (x && std::find(seen.begin(), seen.end(), x) == seen.end()) seen.push_back(x);
  }
  return true;
}

/// Operators that a dequantization moves behind.
bool IsPassed(const Node& n) {
  if (n.Is(Trait::kQuantize) || n.Is(Trait::kContraction)) return false;
  if (n.IsAny(Trait::kView | Trait::kPermutation | Trait::kStrided | Trait::kConcatenation |
              Trait::kPooling | Trait::kDequantize) ||
      ClampOf(n))
    return true;
  return n.IsAny(Trait::kSum | Trait::kProduct) &&
         (n.input(0)->is_constant() || n.input(1)->is_constant());
}

/// The numbers that `codes` stand for reach a Concat with something that is made of constants.
bool IsJoinedWithConstants(const Value& codes) {
  std::vector<const Value*> seen = {&codes};
  for (size_t i = 0; i < seen.size() && seen.size() < kMostValues; ++i)
    for (const Use& use : seen[i]->uses()) {
      const Node& n = *use.user;
      if (n.Is(Trait::kConcatenation) &&
          std::any_of(n.inputs().begin(), n.inputs().end(),
                      [](const Value* v) { return v && IsMadeOfConstants(*v); }))
        return true;
      if (!IsPassed(n)) continue;
      for (const Value* y : n.outputs())
        if (y && std::find(seen.begin(), seen.end(), y) == seen.end()) seen.push_back(y);
    }
  return false;
}

/// The numbers of a bias: a constant, or dequantized codes; undefined: it is neither.
Tensor BiasOf(const Value& bias) {
  if (bias.is_constant()) return bias.dtype() == DType::kF32 ? *bias.constant() : Tensor();
  const Node* n = DequantizeBefore(&bias);
  if (!n || !n->input(0)->is_constant() || !HasConstantParams(*n)) return {};
  const Tensor &codes = *n->input(0)->constant(), &scale = *n->input(1)->constant();
  const Tensor* zero = n->input(2) ? n->input(2)->constant() : nullptr;
  const int64_t count = codes.num_elements();
  if (scale.num_elements() != 1 && scale.num_elements() != count) return {};
  Tensor t(DType::kF32, {count});
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = scale.num_elements() == 1 ? 0 : i;
    const int64_t code = codes.IntAt(i) - (zero ? zero->IntAt(at) : 0);
    t.Set(i, static_cast<float>(code) * static_cast<float>(scale.At(at)));
  }
  return t;
}

Status AddBiasBehind(Graph& g, Node& conv) {
  const Tensor bias = BiasOf(*conv.input(2));
  Dims dims(static_cast<size_t>(conv.input(1)->shape().rank()), 1);
  dims[1] = bias.num_elements();
  GraphEditor e(g);
  Value* const sum = conv.output(0);
  const std::string name = sum->name();
  e.Rename(sum, e.FreshName(name + "_unbiased"));
  e.SetOperand(conv, 2, nullptr);
  INFER_TRY(e.Reinfer(conv));
  e.InsertAfter(conv);
  std::vector<Use> readers(sum->uses().begin(), sum->uses().end());
  INFER_ASSIGN(Value * y, e.Add("Add", {sum, e.AddConstant(bias.Reshaped(std::move(dims)))}));
  for (const Use& use : readers) e.SetOperand(*use.user, use.operand, y);
  e.Rename(y, name);
  return {};
}

}  // namespace

std::vector<Node*> ConvolutionsThatLoseTheirBias(const Graph& g) {
  std::vector<Node*> found;
  for (const auto& n : g.nodes()) {
    if (!IsConvolution(*n) || !n->input(2) || !n->input(1)->shape().has_rank()) continue;
    if (!target::DequantizedBy(n->input(0)) || !target::DequantizedBy(n->input(1))) continue;
    const Node* rounded = QuantizeBehindBounds(n->output(0));
    if (rounded && BiasOf(*n->input(2)).defined() && IsJoinedWithConstants(*rounded->output(0)))
      found.push_back(n.get());
  }
  return found;
}

bool HasOtherForms(const Graph& g, const Target& t) {
  return t.runtime == TargetRuntime::kOpenVino && !ConvolutionsThatLoseTheirBias(g).empty();
}

Status ToFormsOf(Graph& g, const Target& t) {
  if (t.runtime != TargetRuntime::kOpenVino) return {};
  for (Node* conv : ConvolutionsThatLoseTheirBias(g)) INFER_TRY(AddBiasBehind(g, *conv));
  GraphEditor(g).Sweep();  // what the biases were dequantized by
  return {};
}

}  // namespace infer
