#pragma once
/// What a launch of an attention step does, for operands of given extents.
#include "runtime/cpu/kernels/attention/attention.h"
#include "runtime/plan_ir/groups/attention_group.h"

namespace infer {

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

/// For operands of these extents. Masks that are constants stay operands of the step.
Result<AttentionPlan> PlanAttention(const AttentionGroup& group, std::span<const Operand> in,
                                    std::span<const Operand> out);

}  // namespace infer
