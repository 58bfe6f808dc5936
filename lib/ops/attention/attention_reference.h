#pragma once
/// Scaled dot-product attention in double, for every operator that contains it.
/// Letters: B batch, H query heads, G key/value heads (H is a multiple), S queries, T keys,
/// D head size, E value head size.
#include <functional>
#include <limits>
#include <vector>

#include "lib/ops/op_def.h"

namespace infer {

/// Heads of one operand as doubles, row-major [B, heads, length, size].
struct Heads {
  int64_t batch = 0, heads = 0, length = 0, size = 0;
  std::vector<double> values = {};
  const double* Row(int64_t b, int64_t h, int64_t i) const {
    return values.data() + ((b * heads + h) * length + i) * size;
  }
};

/// From [B, heads, length, size] (rank 4) or [B, length, heads * size] (rank 3). Pre: it divides.
Heads ReadHeads(const Tensor& t, int64_t heads);
/// Appends `next` after `past` along the length. Pre: equal batch, heads and size.
Heads Concatenated(const Heads& past, const Heads& next);
/// Heads first, first + step, ... of `h`. Pre: they are there.
Heads Picked(const Heads& h, int64_t first, int64_t step, int64_t count);
/// Rotates pairs (a, b) of the first elements of every head to (a cos - b sin, a sin + b cos): pair
/// d is elements 2d and 2d + 1 when interleaved, d and half + d otherwise. Row `row(b, i)` of the
/// caches, whose last axis has `half` elements, has the angles. InvalidModel when it is outside.
Status Rotate(Heads& h, const Tensor& cos, const Tensor& sin, bool interleaved,
              const std::function<int64_t(int64_t b, int64_t i)>& row);
/// Rounded into a tensor of rank 4 or 3, as ReadHeads reads it.
Tensor WriteHeads(const Heads& h, DType t, int rank);

/// What `scores` of the result shows.
enum class ScoreStage : uint8_t { kNone, kRaw, kCapped, kBiased, kSoftmax };

struct AttentionProblem {
  Heads q, k, v;
  double scale = 1;
  double softcap = 0;  ///< 0: none; else cap * tanh(score / cap), before the bias
  /// Added to the score of query i and key j; -inf forbids. Called from several threads.
  std::function<double(int64_t b, int64_t h, int64_t i, int64_t j)> bias = {};
  /// Per query head: the score of a further key whose value is zero. Empty: there is none.
  std::vector<double> sinks = {};
  ScoreStage stage = ScoreStage::kNone;
};

/// Added to the score of a key that a query must not see.
inline constexpr double kForbidden = -std::numeric_limits<double>::infinity();

struct AttentionResult {
  Heads y;       ///< [B, H, S, E]
  Heads scores;  ///< [B, H, S, T] when a stage was asked for
};

/// softmax(scale Q K' + bias) V. A query whose keys are all forbidden gives zeros.
AttentionResult AttentionReference(const AttentionProblem& p);

/// FLOPs of the two products and 5 per score for scale, bias and softmax.
int64_t AttentionFlops(int64_t batch, int64_t q_heads, int64_t q_length, int64_t kv_length,
                       int64_t head_size, int64_t v_head_size);

}  // namespace infer
