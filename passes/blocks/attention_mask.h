#pragma once
/// Masks between the scores and their Softmax: one step each, put together into what Attention
/// takes: a bias, a truth value per score, "causal", or nothing.
#include "passes/rewrite/rule.h"

namespace infer {

/// One way to mask `x`: + m, - m, Where(c, x, low), Where(c, low, x), + m with -inf wherever m is
/// -inf (so does the definition of Attention, for x that is no number), or not at all.
struct MaskStep {
  explicit MaskStep(const Pattern& x);
  Pattern mask, minus, keep, drop, low, low2, exact;
  Pattern added, subtracted, kept, dropped, opened, closed, self;
};

/// The lowest finite number of its type: what is less is -inf.
Pattern Lowest();

class ScoreMask {
 public:
  /// `scores`: what is masked, [.., queries, keys].
  ScoreMask(const Value& scores, PatchBuilder& b) : scores_(scores), b_(b) {}
  /// `zeroed`: the condition of a Where that clears probabilities after the Softmax, or nullptr.
  Status Add(const Match& m, const MaskStep& step, const Value* zeroed);
  /// The scores so far are multiplied by `factor` > 0.
  Status Scale(double factor);
  /// No masked score is less than the lowest finite number.
  Status Bound();
  /// attn_mask for scores of that rank (3: one head) and keys like axis -2 of `values`; nullptr:
  /// none is needed.
  Result<Value*> Finish(Value* values);

  bool causal() const { return causal_; }
  /// `zeroed` was the condition of a step.
  bool explains_zeroes() const { return explains_zeroes_; }

 private:
  Status AddBias(Value* m);
  Status AddCondition(Value* condition, bool keep, Value* low, bool zeroed);
  enum class Effect : uint8_t { kNone, kCausal, kOther };
  Effect EffectOf(const Tensor& t, const std::function<bool(int64_t)>& kept) const;
  /// Whether a mask of this effect needs no operand.
  bool IsSaid(Effect effect);
  /// Whether one more mask can be added to those before.
  Status CheckRoom() const;
  Value* Number(double v) const;

  const Value& scores_;
  PatchBuilder& b_;
  Value *bias_ = nullptr, *allowed_ = nullptr;
  bool causal_ = false, explains_zeroes_ = false, may_hide_all_ = false;
};

/// The largest number that hides a score: no network's scores get near.
inline constexpr double kHidden = -1e4;

}  // namespace infer
