#pragma once
/// DequantizeLinear -> operator [-> activations] [-> QuantizeLinear] as one step on integers.
#include <optional>

#include "lib/pattern/rule.h"
#include "runtime/plan_ir/groups/grouping.h"

namespace infer {

/// A tensor of u8 or i8.
inline bool Is8Bit(const Value* v) {
  return v && v->type().is_tensor() && (v->dtype() == DType::kU8 || v->dtype() == DType::kI8);
}

/// scale and zero point of a Q or DQ node, constants both.
struct QuantParams8 {
  DType dtype = DType::kU8;  ///< u8, i8, or (of a bias) i32
  std::vector<float> scales;
  std::vector<int32_t> zero_points;  ///< as many as scales
  int64_t axis = 0;                  ///< of several scales; as written, may be negative
  bool per_tensor() const { return scales.size() == 1; }
  float scale() const { return scales[0]; }
  int32_t zero_point() const { return zero_points[0]; }
  bool operator==(const QuantParams8&) const = default;
};

/// An operand of the main node that comes out of a DQ.
struct QuantInput {
  QuantParams8 params;
  int operand = -1;                  ///< of the step: the integer tensor
  const Value* value = nullptr;      ///< the integer tensor
  const Tensor* constant = nullptr;  ///< its value where known
};

/// -> QuantizeLinear -> DequantizeLinear -> Add of another integer tensor, before the rest; or
/// -> QuantizeLinear -> QLinearAdd.
struct QuantResidual {
  QuantParams8 between;  ///< of the main node's own result
  QuantInput other;
  bool relu = false;    ///< after the addition
  bool linear = false;  ///< QLinearAdd, which divides scales first and rounds after the zero point
};

struct QuantGroup {
  /// By operand of the main node; nullopt: it stays as it is.
  std::vector<std::optional<QuantInput>> inputs;
  std::vector<const Node*> activations;  ///< between the main node and its (first) Q
  std::optional<QuantResidual> residual;
  std::optional<QuantParams8> output;  ///< nullopt: the result is f32
};

/// An operand of the node comes out of a DequantizeLinear.
bool ReadsDequantized(const Node& n);

/// How a group may end behind the activations: with an addition of another quantized tensor, or
/// with the first QuantizeLinear. Best first.
std::span<const Rule> QuantRules();

/// Unsupported says what the step has that a group must not have.
Result<QuantGroup> DecodeQuantGroup(const StepCall& call);

/// Forms the groups that some kernel accepts around nodes that may be `main`, of activations that
/// `may_follow`.
void GroupQuantized(Plan& plan, FunctionRef<bool(const Node&)> may_be_main,
                    FunctionRef<bool(const Node&)> may_follow, AcceptsStep accepts);

/// "f32", or "u8s8s32" and the like for a group.
std::string PrecisionOf(const StepCall& call);

}  // namespace infer
