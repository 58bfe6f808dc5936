#include "lib/ir/roles.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace infer {
namespace {

/// The operand beside `v` of a node of two; nullptr where `v` is none of them, or both.
Value* Beside(const Value* v, const Node& n) {
  if ((n.input(0) == v) == (n.input(1) == v)) return nullptr;
  return n.input(n.input(0) == v ? 1 : 0);
}

Node* MakerWith(Trait t, const Value* v) {
  Node* const n = v ? v->producer() : nullptr;
  return n && n->Is(t) && n->output(0) == v ? n : nullptr;
}

/// `param` is called "<result>_scale", in capitals or not.
bool NamesScaleOf(std::string_view param, std::string_view result) {
  constexpr std::string_view kSuffix = "_scale";
  auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return param.size() == result.size() + kSuffix.size() && param.ends_with(kSuffix) &&
         std::ranges::equal(param.substr(0, result.size()), result, same);
}

}  // namespace

bool IsConvolution(const Node& n) {
  const auto layout = WeightLayoutOf(n);
  return layout && layout->is_window && !layout->spreads;
}

bool IsTransposedConvolution(const Node& n) {
  const auto layout = WeightLayoutOf(n);
  return layout && layout->spreads;
}

bool IsMatrixProduct(const Node& n) {
  const auto layout = WeightLayoutOf(n);
  return layout && !layout->is_window;
}

bool TakesBias(const Node& n) {
  const auto layout = WeightLayoutOf(n);
  return layout && layout->has_bias;
}

bool IsPlainProduct(const Node& n) {
  const auto layout = WeightLayoutOf(n);
  return layout && !layout->is_window && !layout->data_transposed && !layout->rows_are_outputs() &&
         layout->alpha == 1 && (!n.input(2) || layout->beta == 1);
}

std::optional<Clamp> ClampOf(const Node& n) {
  if (!n.def().clamp) return std::nullopt;
  OpCall call(n.def(), n.attrs(), n.inputs().size(), 0);
  for (size_t i = 0; i < n.inputs().size(); ++i)
    if (const Value* v = n.input(i)) call.BindInput(i, &v->type(), v->constant());
  return n.def().clamp(call);
}

bool IsRelu(const Node& n) {
  const auto clamp = ClampOf(n);
  return clamp && clamp->is_relu();
}

Value* AddedTo(const Value* v, const Node& n) { return n.Is(Trait::kSum) ? Beside(v, n) : nullptr; }

Value* MultipliedBy(const Value* v, const Node& n) {
  return n.Is(Trait::kProduct) ? Beside(v, n) : nullptr;
}

bool IsIdentity(const Node& n) { return n.Is(Trait::kView) && n.Is(Trait::kUnary); }

std::vector<int64_t> PermOf(const Node& permutation, int rank) {
  if (const auto it = permutation.attrs().find("perm"); it != permutation.attrs().end())
    return std::get<std::vector<int64_t>>(it->second);
  const Value& x = *permutation.input(0);
  if (rank < 0 && x.type().is_tensor() && x.shape().has_rank()) rank = x.shape().rank();
  std::vector<int64_t> perm(static_cast<size_t>(std::max(rank, 0)));
  std::iota(perm.rbegin(), perm.rend(), int64_t{0});
  return perm;
}

bool TurnsMatrix(const Node& n) {
  return n.Is(Trait::kPermutation) && PermOf(n, 2) == std::vector<int64_t>{1, 0};
}

bool IsWholeShape(const Node& n) {
  return n.Is("Shape") && n.Attr<int64_t>("start") == 0 && !n.attrs().count("end");
}

bool Interpolates(const Node& n) {
  return n.Is(Trait::kSampling) &&
         (n.AttrOr<std::string>("mode", "nearest") != "nearest" ||
          n.AttrOr<std::string>("coordinate_transformation_mode", "") == "tf_crop_and_resize");
}

const Value* ScaleOfResult(const Node& n) {
  const OpDef& def = n.def();
  if (!n.Is(Trait::kQuantization) || def.outputs.empty()) return nullptr;
  for (size_t i = 0; i < std::min(def.inputs.size(), n.inputs().size()); ++i)
    if (NamesScaleOf(def.inputs[i].name, def.outputs[0].name)) return n.input(i);
  return nullptr;
}

Value* CodesSide(const Node& n) { return n.Is(Trait::kQuantize) ? n.output(0) : n.input(0); }

Value* NumbersSide(const Node& n) { return n.Is(Trait::kQuantize) ? n.input(0) : n.output(0); }

bool HasConstantParams(const Node& n) {
  return n.input(1)->is_constant() && (!n.input(2) || n.input(2)->is_constant());
}

Node* DequantizeBefore(const Value* v) { return MakerWith(Trait::kDequantize, v); }

Node* QuantizeBefore(const Value* v) { return MakerWith(Trait::kQuantize, v); }

Node* QuantizeBehind(const Value* v) {
  if (!v || !v->has_one_use()) return nullptr;
  const Use& use = v->uses()[0];
  return use.operand == 0 && use.user->Is(Trait::kQuantize) ? use.user : nullptr;
}

Node* QuantizeBehindBounds(const Value* v) {
  while (v && v->has_one_use()) {
    if (Node* const q = QuantizeBehind(v)) return q;
    const Node& next = *v->uses()[0].user;
    if (next.input(0) != v || !ClampOf(next)) return nullptr;
    v = next.output(0);
  }
  return nullptr;
}

bool ReadsAsWeights(const Use& use) {
  if (IsRecurrentLayer(*use.user)) return use.operand == 1 || use.operand == 2;
  return use.operand == 1 && WeightLayoutOf(*use.user).has_value();
}

bool MakesStoredWeights(const Node& n) {
  if (n.Is(Trait::kProduct))
    return std::any_of(n.inputs().begin(), n.inputs().end(), [](const Value* v) {
      return v && v->producer() && IsCast(*v->producer()) && MakesStoredWeights(*v->producer());
    });
  if (!IsCast(n) || !n.input(0)->is_constant() ||
      (n.input(0)->dtype() != DType::kI8 && n.input(0)->dtype() != DType::kU8))
    return false;
  const Value& numbers = *n.output(0);
  const auto reads = [](const Use& use) { return ReadsAsWeights(use); };
  return IsFloat(numbers.dtype()) && !numbers.uses().empty() && !numbers.is_output() &&
         std::all_of(numbers.uses().begin(), numbers.uses().end(), [&](const Use& use) {
           if (!use.user->Is(Trait::kProduct)) return false;
           const Value* const factor = Beside(&numbers, *use.user);
           const Value& weights = *use.user->output(0);
           return factor && factor->is_constant() && !weights.is_output() &&
                  !weights.uses().empty() &&
                  std::all_of(weights.uses().begin(), weights.uses().end(), reads);
         });
}

}  // namespace infer
