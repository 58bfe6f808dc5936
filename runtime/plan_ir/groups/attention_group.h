#pragma once
/// MatMul -> scale, mask -> Softmax -> MatMul, or the operator Attention, as one step, with the
/// transposes, reshapes, slices, splits and quantizations of its operands and of its result.
#include "lib/pattern/rule.h"
#include "runtime/plan_ir/groups/grouping.h"

namespace infer {

/// One step of what happens to the elements of an operand while they are loaded, or to the
/// probabilities, or to the result.
struct ElementStep {
  enum class Kind : uint8_t { kFactor, kQuantize, kDequantize };
  Kind kind = Kind::kFactor;
  float scale = 1;  ///< kFactor: the factor
  int32_t zero_point = 0;
  bool is_signed = false;
  bool operator==(const ElementStep&) const = default;
};

/// Where an operand comes from: nodes from `source` to what the product reads, and which result of
/// each.
struct AttentionOperand {
  const Value* source = nullptr;
  std::vector<std::pair<const Node*, size_t>> path;
};

struct AttentionGroup {
  AttentionOperand q, k, v;
  std::vector<const Node*> on_result;  ///< behind the second product
  float scale = 1;
  std::vector<ElementStep> q_steps, k_steps, v_steps, probability, y_steps;
  const Value *added = nullptr, *condition = nullptr, *result = nullptr;
  bool invert = false;
  float hidden = 0;
  const Node* block = nullptr;  ///< the operator, where it is one
};

/// The two products and what stands between them.
const Rule& AttentionRule();

/// Of a step whose main node is its Softmax or the operator. Unsupported says what does not fit.
Result<AttentionGroup> DecodeAttention(const StepCall& call);

/// Forms the steps that DecodeAttention knows and some kernel accepts, as long as they can be.
void GroupAttention(Plan& plan, const CompileOptions& options, AcceptsStep accepts);

}  // namespace infer
