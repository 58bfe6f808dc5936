#pragma once
/// Where the operands, masks, caches and the result of an attention step lie, for given extents:
/// what every backend's kernel needs beside its loops.
#include <limits>
#include <optional>

#include "runtime/plan_ir/groups/attention_group.h"

namespace infer {

/// Heads of an operand or of the result: element e of row i of lead l (sample and head) is
/// elements offset[l] + i * row + e * element.
struct HeadRows {
  int arg = -1;
  DType dtype = DType::kF32;  ///< f32, u8 or i8
  std::vector<int64_t> offset;
  int64_t row = 0, element = 1;
  std::vector<ElementStep> steps;  ///< the first of an 8-bit operand dequantizes it
};

/// Something added to scores, or what they are replaced by.
struct ScoreMask {
  int arg = -1;
  Tensor constant = {};    ///< where its elements are known before the run
  bool is_choice = false;  ///< bool: where it is false (`invert`: true), `hidden` stands
  bool invert = false;
  float hidden = 0;
  std::vector<int64_t> offset;  ///< by lead
  int64_t row = 0;              ///< 0: the same for all queries; keys lie together
};

struct KeyRange {
  int64_t begin = 0, end = 0;
};

/// Which keys a query sees by its position alone.
struct KeyBand {
  int64_t left = -1, right = -1;  ///< so many before and behind its own position; -1: all
  int64_t position = 0;           ///< of query 0 among the keys
  int64_t keys = std::numeric_limits<int64_t>::max();  ///< none beyond
  int valid_arg =
      -1;  ///< i64 by sample: keys that count; the last query stands at the last of them
  int64_t queries = 0, leads_per_sample = 1;

  bool hides() const {
    return left >= 0 || right >= 0 || valid_arg >= 0 || keys < std::numeric_limits<int64_t>::max();
  }
  /// Of `n` keys: 0 <= begin <= end <= n.
  KeyRange Of(int64_t lead, int64_t i, int64_t n, std::byte* const* args) const;
};

/// y = softmax(mask(scale q k')) v, head by head.
struct AttentionGeometry {
  int64_t leads = 0, queries = 0, keys = 0, depth = 0, values = 0;  ///< values: extent of v's rows
  float scale = 1;
  HeadRows q, k, v, y;
  std::optional<ScoreMask> added, chosen;
  KeyBand band;
  float softcap = 0;                     ///< 0: none; else cap tanh(score / cap), before masks
  std::vector<ElementStep> probability;  ///< quantize, dequantize; or nothing
  bool zero_where_none = false;          ///< a query that sees no key gives zeros, else NaN
};

/// Keys or values with those of the past before them: what the operator's caches hold.
struct AttentionCache {
  HeadRows rows;      ///< the new ones, by sample and key head
  int past_arg = -1;  ///< -1: there is none
  int to_arg = -1;    ///< -1: the launch's own memory, at `at` floats
  int64_t at = 0;
  int64_t leads = 0, past = 0, length = 0, size = 0;
};

/// A launch of the operator: caches are filled, then attention runs on them.
struct AttentionPlan {
  AttentionGeometry attention;
  std::vector<AttentionCache> caches;
  int64_t own_floats = 0;  ///< memory of the launch before that of attention
};

/// For operands of these extents. Masks that are constants stay operands of the step.
Result<AttentionPlan> PlanAttention(const AttentionGroup& group, std::span<const Operand> in,
                                    std::span<const Operand> out);

/// For extents as they could be, where some come with the run: Unsupported tells what would not fit
/// then.
Result<AttentionPlan> PlanAttention(const AttentionGroup& group, const StepCall& call);

}  // namespace infer
