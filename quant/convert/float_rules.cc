#include "quant/convert/float_rules.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "lib/support/strings.h"
#include "quant/target/half.h"

namespace infer {
namespace {

struct FloatFacts {
  double largest, smallest_normal;
  double half_ulp;  ///< relative error of rounding a normal number
};

FloatFacts FactsOf(DType t) {
  if (t == DType::kF16) return {65504, 0x1p-14, 0x1p-11};
  return {0x1.fep127, 0x1p-126, 0x1p-8};
}

/// Operators that stay f32, with the reason. A space before and behind each name.
struct Keep {
  std::string_view ops, reason;
};
constexpr Keep kKept[] = {
    {" Range CumSum CumProd ", "it adds up along an axis, and 16 bits lose the small steps"},
    {" Sin Cos Tan ", "an angle of many turns has no fraction left in 16 bits"},
    {" NonMaxSuppression RoiAlign MaxRoiPool GridSample AffineGrid DeformConv ",
     "coordinates need more than the digits of 16 bits"},
    {" RandomNormal RandomUniform RandomNormalLike RandomUniformLike Multinomial Bernoulli ",
     "it draws random numbers"},
    {" Cast CastLike ConstantOfShape EyeLike ", "its type is its meaning"},
    {" DFT STFT MelWeightMatrix HannWindow HammingWindow BlackmanWindow ",
     "spectra span more than the range of 16 bits"},
    {" QuantizeLinear DequantizeLinear DynamicQuantizeLinear ", "it is quantized already"},
    {" BitCast ", "its bits are its meaning"},
};

bool In(std::string_view list, std::string_view op) {
  return list.find(Cat(" ", op, " ")) != std::string_view::npos;
}

std::string_view TypeOfInput(const Node& n, size_t i) {
  const auto& defs = n.def().inputs;
  return defs.empty() ? "" : defs[std::min(i, defs.size() - 1)].type;
}

std::string_view TypeOfOutput(const Node& n, size_t i) {
  const auto& defs = n.def().outputs;
  return defs.empty() ? "" : defs[std::min(i, defs.size() - 1)].type;
}

bool Allows(const Node& n, std::string_view var, DType to) {
  for (const TypeConstraint& c : n.def().constraints)
    if (c.var == var) return c.types.Has(to) && c.types.Has(DType::kF32);
  return false;
}

}  // namespace

std::string NeedsF32(const Node& node, DType to) {
  if (!node.subgraphs().empty()) return "what goes in and out of its body stays f32";
  for (const Keep& k : kKept)
    if (node.def().domain.empty() && In(k.ops, node.op())) return std::string(k.reason);
  const auto others = [](const auto& values) {
    return std::any_of(values.begin(), values.end(),
                       [](const Value* v) { return v && !v->type().is_tensor(); });
  };
  if (others(node.inputs()) || others(node.outputs())) return "it works on sequences or maps";
  if (RetypedWith(node, to).empty()) return Cat("the operator has no ", Name(to), " form");
  return to == DType::kF16 ? WhyOrtLacksHalf(node) : "";
}

bool ResultsGrow(const Node& node) {
  return node.def().domain.empty() &&
         In(" Exp Pow ReduceSum ReduceSumSquare ReduceL1 ReduceProd Reciprocal ", node.op());
}

bool ResultsBounded(const Node& node) {
  return In(
      " Softmax LogSoftmax Sigmoid Tanh HardSigmoid Softsign Erf Clip LayerNormalization "
      "RMSNormalization SimplifiedLayerNormalization InstanceNormalization GroupNormalization ",
      node.op());
}

bool IsHeavy(const Node& node) {
  return In(
      " Conv ConvTranspose Gemm MatMul Einsum LSTM GRU RNN Gather Attention MultiHeadAttention "
      "GroupQueryAttention FusedConv FusedGemm FusedMatMul Mlp SwiGLU GeGLU SqueezeExcite ",
      node.op());
}

Retyped RetypedWith(const Node& node, DType to) {
  Retyped r;
  std::set<std::string_view> vars;
  // The other operands of Resize are about places, not data.
  const size_t own = node.Is("Resize") ? 1 : node.inputs().size() - node.num_captures();
  for (size_t i = 0; i < own; ++i) {
    const std::string_view var = TypeOfInput(node, i);
    if (!IsF32(node.input(i)) || !Allows(node, var, to)) continue;
    r.operands.push_back(i);
    vars.insert(var);
  }
  for (size_t i = 0; i < node.outputs().size(); ++i)
    if (IsF32(node.output(i)) && vars.count(TypeOfOutput(node, i)) > 0) r.results.push_back(i);
  // A first result that cannot follow its operands.
  if (IsF32(node.output(0)) && vars.count(TypeOfOutput(node, 0)) == 0) return {};
  return r;
}

void RoundingCheck::See(std::span<const float> values) {
  const double smallest = FactsOf(to_).smallest_normal;
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    const double x = static_cast<double>(v), size = std::fabs(x);
    most_ = std::max(most_, size);
    small_ += x != 0 && size < smallest ? 1 : 0;
    power_ += x * x;
    const double rounded = static_cast<double>(to_ == DType::kF16 ? F16ToFloat(FloatToF16(v))
                                                                  : BF16ToFloat(FloatToBF16(v)));
    if (std::isfinite(rounded)) error_ += (x - rounded) * (x - rounded);
  }
  count_ += static_cast<int64_t>(values.size());
}

bool RoundingCheck::overflows(double room) const { return most_ > FactsOf(to_).largest / room; }

std::string RoundingCheck::Why(double room) const {
  const FloatFacts f = FactsOf(to_);
  if (overflows(room)) return Cat("overflow ", Name(to_), " (up to ", most_, ")");
  if (error_ <= f.half_ulp * f.half_ulp * power_) return "";
  return Cat("become subnormal in ", Name(to_), " (", small_, " of ", count_, " elements; largest ",
             most_, ")");
}

}  // namespace infer
