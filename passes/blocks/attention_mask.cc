#include "passes/blocks/attention_mask.h"

#include <algorithm>
#include <limits>

#include "lib/ir/mask_bounds.h"
#include "lib/tensor/float_limits.h"
#include "passes/blocks/attention.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

bool IsLow(const Value& v) {
  const Tensor& t = *v.constant();
  if (t.num_elements() == 0 || !IsFloat(t.dtype())) return false;
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (!(t.At(i) <= kHidden) || t.At(i) != t.At(0)) return false;
  return true;
}

/// No query of the condition is left without a key, by its first column: constants, and slices of
/// them that begin at column 0.
bool ShowsFirstKey(const Value& condition, bool keep) {
  const Value* v = &condition;
  for (const Node* n = v->producer(); n; n = v->producer()) {
    if (n->Is("Slice")) {
      const Value *starts = n->input(1), *axes = n->input(3), *steps = n->input(4);
      if (!axes || !axes->is_constant() || axes->constant()->num_elements() != 1) return false;
      const int64_t axis = axes->constant()->IntAt(0);
      const bool last = axis == -1 || axis + 1 == RankOf(*v);
      if (last && (!starts->is_constant() || starts->constant()->IntAt(0) != 0)) return false;
      if (steps && (!steps->is_constant() || steps->constant()->IntAt(0) != 1)) return false;
    } else if (n->Is("Not")) {
      keep = !keep;
    } else if (!n->Is("Cast") && !n->Is("Unsqueeze")) {
      return false;
    }
    v = n->input(0);
  }
  if (!v->is_constant() || v->constant()->rank() == 0) return false;
  const Tensor& t = *v->constant();
  for (int64_t i = 0; i < t.num_elements(); i += t.dim(-1))
    if ((t.At(i) != 0) != keep) return false;
  return true;
}

Pattern Low() { return Constant().Where("a number that hides a score, -10000 or less", IsLow); }

Pattern IsInfinite(const Pattern& mask) { return Op("Less", mask, Lowest()).Shared(); }

}  // namespace

Pattern Lowest() {
  return Scalar().Where("the lowest number", [](const Value& v) {
    const DType t = v.dtype();
    return IsFloat(t) && v.constant()->At(0) == LowestFinite(t);
  });
}

MaskStep::MaskStep(const Pattern& x)
    : low(Low()),
      low2(Low()),
      added(Op("Add", x, mask)),
      subtracted(Op("Sub", x, minus)),
      kept(Op("Where", keep, x, low)),
      dropped(Op("Where", drop, low2, x)),
      opened(Op("Where", Op("Not", IsInfinite(exact)).Shared(), Op("Add", x, exact),
                Number(-std::numeric_limits<double>::infinity()))),
      closed(Op("Where", IsInfinite(exact), Number(-std::numeric_limits<double>::infinity()),
                Op("Add", x, exact))),
      self(OneOf({added, subtracted, opened, closed, kept, dropped, x})) {}

/// What a constant mask does to the scores, `kept(i)` telling it of element i.
ScoreMask::Effect ScoreMask::EffectOf(const Tensor& t,
                                      const std::function<bool(int64_t)>& kept) const {
  bool all = true;
  for (int64_t i = 0; i < t.num_elements() && all; ++i) all = kept(i);
  if (all) return Effect::kNone;
  if (t.rank() < 2 || t.num_elements() != t.dim(-1) * t.dim(-2)) return Effect::kOther;
  const int64_t n = t.dim(-1);
  if (t.dim(-2) != n || StaticDim(scores_, -1) != n || StaticDim(scores_, -2) != n)
    return Effect::kOther;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      if (kept(i * n + j) != (j <= i)) return Effect::kOther;
  return Effect::kCausal;
}

bool ScoreMask::IsSaid(Effect effect) {
  causal_ |= effect == Effect::kCausal;
  return effect != Effect::kOther;
}

Status ScoreMask::CheckRoom() const {
  return allowed_ || may_hide_all_
             ? InvalidModel("needs a mask before that leaves every query a key")
             : Status();
}

Value* ScoreMask::Number(double v) const { return b_.Const(FromDoubles(scores_.dtype(), {}, {v})); }

Status ScoreMask::Add(const Match& m, const MaskStep& step, const Value* zeroed) {
  if (m.Has(step.added)) return AddBias(m[step.mask]);
  if (m.Has(step.opened) || m.Has(step.closed)) return AddBias(m[step.exact]);
  if (m.Has(step.subtracted)) {
    INFER_ASSIGN(Value * minus, b_("Neg", {m[step.minus]}));
    return AddBias(minus);
  }
  if (m.Has(step.kept))
    return AddCondition(m[step.keep], true, m[step.low], zeroed == m[step.keep]);
  if (m.Has(step.dropped))
    return AddCondition(m[step.drop], false, m[step.low2], zeroed == m[step.drop]);
  return {};
}

Status ScoreMask::AddBias(Value* m) {
  if (m->dtype() != scores_.dtype()) return InvalidModel("needs a mask of the scores' type");
  if (RankOf(*m) < 0) return InvalidModel("needs a mask of known rank");
  if (m->is_constant()) {
    const Tensor& t = *m->constant();
    bool is_mask = true;
    for (int64_t i = 0; i < t.num_elements() && is_mask; ++i)
      is_mask = t.At(i) == 0 || t.At(i) <= kHidden;
    const auto effect =
        is_mask ? EffectOf(t, [&](int64_t i) { return t.At(i) == 0; }) : Effect::kOther;
    if (IsSaid(effect)) return {};
  }
  INFER_TRY(CheckRoom());
  if (!bias_) {
    bias_ = m;
    return {};
  }
  INFER_ASSIGN(bias_, b_("Add", {bias_, m}));
  return {};
}

Status ScoreMask::AddCondition(Value* condition, bool keep, Value* low, bool zeroed) {
  if (RankOf(*condition) < 0) return InvalidModel("needs a mask of known rank");
  explains_zeroes_ |= zeroed;
  if (condition->is_constant()) {
    const Tensor& t = *condition->constant();
    const auto effect = EffectOf(t, [&](int64_t i) { return (t.At(i) != 0) == keep; });
    if (IsSaid(effect)) return {};
  }
  INFER_TRY(CheckRoom());
  // Where all keys of a query are hidden, Attention makes zeroes of truth values and of -inf. A low
  // number in the place of the scores makes all keys alike; so does adding one that swallows them.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool infinite = zeroed || low->constant()->At(0) == -kInfinity;
  if (infinite && !bias_) {
    if (keep) {
      allowed_ = condition;
      return {};
    }
    INFER_ASSIGN(allowed_, b_("Not", {condition}));
    return {};
  }
  may_hide_all_ = !ShowsFirstKey(*condition, keep);
  const double swallowing = scores_.dtype() == DType::kF16 ? -65504 : -1e30;
  Value* hidden = Number(infinite ? -kInfinity : swallowing);
  Value* shown = bias_ ? bias_ : Number(0);
  INFER_ASSIGN(bias_, b_("Where", keep ? std::vector<Value*>{condition, shown, hidden}
                                       : std::vector<Value*>{condition, hidden, shown}));
  return {};
}

Status ScoreMask::Scale(double factor) {
  if (!(factor > 0)) return InvalidModel("needs positive factors after a mask");
  if (!bias_ || factor == 1) return {};
  INFER_ASSIGN(bias_, b_("Mul", {bias_, Number(factor)}));
  return {};
}

Status ScoreMask::Bound() {
  if (allowed_) return InvalidModel("needs a mask of numbers before a bound");
  // A query all of whose keys are hidden by -inf sees them all alike.
  if (!bias_ || !MayHideAllByInfinity(*bias_)) return {};
  INFER_ASSIGN(bias_, b_("Max", {bias_, Number(LowestFinite(scores_.dtype()))}));
  return {};
}

Result<Value*> ScoreMask::Finish(Value* values) {
  Value* mask = allowed_ ? allowed_ : bias_;
  if (!mask) return mask;
  // Attention takes 2 to 4 axes, and keys that the mask lacks are hidden, not broadcast.
  while (RankOf(*mask) < 2) {
    INFER_ASSIGN(mask, b_("Unsqueeze", {mask, b_.Ints({0})}));
  }
  const int rank = RankOf(*mask);
  if (!SameDim(*mask, -1, *values, -2)) {
    INFER_ASSIGN(Value * keys,
                 b_("Shape", {values}, {{"end", int64_t{-1}}, {"start", int64_t{-2}}}));
    Value* ones = b_.Ints(std::vector<int64_t>(static_cast<size_t>(rank - 1), 1));
    INFER_ASSIGN(Value * shape, b_("Concat", {ones, keys}, {{"axis", int64_t{0}}}));
    INFER_ASSIGN(mask, b_("Expand", {mask, shape}));
  }
  if (RankOf(scores_) == 3 && rank == 3) return b_("Unsqueeze", {mask, b_.Ints({1})});
  return mask;
}

}  // namespace infer
