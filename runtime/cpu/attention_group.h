#pragma once
/// MatMul -> scale, mask -> Softmax -> MatMul as one step, with the transposes, reshapes, slices,
/// splits and quantizations of its operands and of its result.
#include "runtime/cpu/attention.h"

namespace infer {

/// Where an operand comes from: nodes from `source` to what the product reads, and which result of
/// each.
struct AttentionOperand {
  const Value* source = nullptr;
  std::vector<std::pair<const Node*, size_t>> path;
};

struct AttentionGroup {
  const Node *scores = nullptr, *softmax = nullptr, *product = nullptr;
  AttentionOperand q, k, v;
  std::vector<const Node*> on_scores;  ///< between the first product and Softmax
  std::vector<const Node*> on_result;  ///< behind the second product
  float scale = 1;
  std::vector<ElementStep> q_steps, k_steps, v_steps, probability, y_steps;
  const Value *added = nullptr, *condition = nullptr, *result = nullptr;
  bool invert = false;
  float hidden = 0;
};

/// Of a step whose main node is its Softmax. Unsupported says what does not fit.
Result<AttentionGroup> DecodeAttention(const StepCall& call);

/// For operands of these extents. Masks that are constants stay operands of the step.
Result<Attention> PlanAttention(const AttentionGroup& group, std::span<const Operand> in,
                                std::span<const Operand> out);

/// Forms the steps that DecodeAttention knows, as long as they can be.
void GroupAttention(Plan& plan, const KernelList& kernels, const CompileOptions& options);

}  // namespace infer
