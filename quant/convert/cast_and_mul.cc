#include "quant/convert/cast_and_mul.h"

#include <algorithm>

#include "lib/ir/roles.h"
#include "quant/convert/layers.h"

namespace infer {
namespace {

bool IsZero(const Value* v) {
  if (!v) return true;
  if (!v->constant()) return false;
  const std::vector<int64_t> numbers = v->constant()->ToInts();
  return std::all_of(numbers.begin(), numbers.end(), [](int64_t n) { return n == 0; });
}

/// A dequantized value, or one that views, moves or pools make of it.
bool ComesFromCodes(const Value* v) {
  while (const Node* const n = v ? v->producer() : nullptr) {
    if (n->IsAny(Trait::kDequantize | Trait::kQuantize)) return true;
    if (!n->IsAny(Trait::kView | Trait::kMove | Trait::kPooling)) return false;
    v = n->input(0);
  }
  return false;
}

bool IsFloatLayer(const Use& use, bool products, const std::set<std::string>& in_f32) {
  const Node& n = *use.user;
  if (!ReadsAsWeights(use)) return false;
  if (ComesFromCodes(n.input(0)))
    return !IsMatrixProduct(n) && in_f32.contains(n.output(0)->name()) &&
           !QuantizeBehindBounds(n.output(0));
  return products || !IsMatrixProduct(n);
}

bool HasChannelScales(const Node& dequantize) {
  const Value* const scale = dequantize.input(1);
  return scale->shape().has_rank() && scale->shape().rank() > 0;
}

/// The scales as a factor of the codes; nullopt: no such constants.
std::optional<Tensor> FactorOf(const Node& dequantize) {
  const Tensor* const codes = dequantize.input(0)->constant();
  const Tensor* const scale = dequantize.input(1)->constant();
  if (!codes || codes->dtype() != DType::kI8 || !scale || scale->dtype() != DType::kF32 ||
      !IsZero(dequantize.input(2)) || dequantize.AttrOr<int64_t>("block_size", 0) != 0)
    return std::nullopt;
  if (scale->rank() == 0) return *scale;
  const int64_t rank = codes->rank(), axis = dequantize.AttrOr<int64_t>("axis", 1);
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (scale->rank() != 1 || at < 0 || at >= rank) return std::nullopt;
  Dims dims(static_cast<size_t>(rank), 1);
  dims[static_cast<size_t>(at)] = scale->num_elements();
  return scale->Reshaped(dims);
}

}  // namespace

Status SpellAsCastAndMul(Graph& g, bool products, bool has_channel_scales,
                         const std::set<std::string>& in_f32) {
  GraphEditor editor(g);
  for (auto it = g.nodes().begin(); it != g.nodes().end();) {
    Node& n = **it++;
    if (!n.Is(Trait::kDequantize) || n.output(0)->is_output()) continue;
    const std::vector<Use> uses = n.output(0)->uses();
    const bool must = !has_channel_scales && HasChannelScales(n);
    if (!std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
          return must ? ReadsAsWeights(use) : IsFloatLayer(use, products, in_f32);
        }))
      continue;
    const auto factor = FactorOf(n);
    if (!factor) continue;
    const std::string name = n.output(0)->name();
    editor.InsertBefore(n);
    INFER_ASSIGN(Value * numbers,
                 AddCast(editor, n.input(0), DType::kF32, n.input(0)->name() + "_cast"));
    Value* const scales = editor.AddConstant(*factor, n.input(1)->name() + "_factor");
    INFER_ASSIGN(Value * weights, AddNamed(editor, "Mul", {numbers, scales}, {}, name));
    for (const Use& use : uses) editor.SetOperand(*use.user, use.operand, weights);
    editor.Erase(n);
  }
  editor.Sweep();
  return {};
}

}  // namespace infer
