#pragma once
/// MatMul -> scale, mask -> Softmax -> MatMul, or the operator Attention, as one step, with the
/// transposes, reshapes, slices, splits and quantizations of its operands and of its result.
#include "runtime/cpu/kernels/attention/attention.h"

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
  const Node* block = nullptr;  ///< the operator, where it is one; then `scores`... are nullptr
};

/// Keys or values with those of the past before them: what the operator's caches hold.
struct AttentionCache {
  HeadRows rows;      ///< the new ones, by sample and key head
  int past_arg = -1;  ///< -1: there is none
  int to_arg = -1;    ///< -1: the launch's own memory, at `at` floats
  int64_t at = 0;
  int64_t leads = 0, past = 0, length = 0, size = 0;
};

/// What a launch of the operator does; where there are no caches, attention alone.
struct AttentionPlan {
  Attention attention;
  std::vector<AttentionCache> caches;
  int64_t own_floats = 0;  ///< memory of the launch before that of attention
};

/// Of a step whose main node is its Softmax or the operator. Unsupported says what does not fit.
Result<AttentionGroup> DecodeAttention(const StepCall& call);

/// For operands of these extents. Masks that are constants stay operands of the step.
Result<AttentionPlan> PlanAttention(const AttentionGroup& group, std::span<const Operand> in,
                                    std::span<const Operand> out);

/// Forms the steps that DecodeAttention knows, as long as they can be.
void GroupAttention(Plan& plan, const KernelList& kernels, const CompileOptions& options);

}  // namespace infer
