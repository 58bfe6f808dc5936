#include "runtime/cpu/compile/quant_spellings.h"

#include <algorithm>
#include <map>
#include <optional>

#include "lib/ir/eval.h"
#include "lib/ir/replacement.h"
#include "lib/ir/roles.h"
#include "runtime/cpu/compile/quant_walk.h"
#include "runtime/plan_ir/groups/quant_group.h"

namespace infer {
namespace {

/// Moves between a DequantizeLinear and the product that reads it are followed so far.
constexpr int kMostMoves = 8;
bool IsOneNumber(const Value* v) {
  return v && v->constant() && v->constant()->num_elements() == 1;
}

/// The same number or numbers; an operand that is left out is 0.
bool SameConstant(const Value* a, const Value* b) {
  if (a == b) return true;
  if (!a || !b) {
    const Value* const given = a ? a : b;
    if (!given->constant()) return false;
    const Tensor& t = *given->constant();
    for (int64_t i = 0; i < t.num_elements(); ++i)
      if (t.IntAt(i) != 0) return false;
    return true;
  }
  return a->constant() && b->constant() && BitEqual(*a->constant(), *b->constant());
}

/// Two of QuantizeLinear and DequantizeLinear whose codes are of one type and mean the same.
bool SameCodes(const Node& a, const Node& b) {
  const auto codes = [](const Node& n) { return CodesSide(n)->dtype(); };
  if (codes(a) != codes(b) || !SameConstant(a.input(1), b.input(1)) ||
      !SameConstant(a.input(2), b.input(2)))
    return false;
  if (&a.def() == &b.def()) return a.attrs() == b.attrs();
  const auto same = [&](const char* attr) {
    return a.Attr<int64_t>(attr) == b.Attr<int64_t>(attr);
  };
  return IsOneNumber(a.input(1)) || (same("axis") && same("block_size"));
}

/// Operand 0 in another order or under other extents.
bool IsMove(const Node& n) {
  return n.IsAny(Trait::kView | Trait::kPermutation) && HasOneResult(n) && n.input(0);
}

/// The node that makes `v` for one reader, where it is of this operator.
Node* OnlyMaker(const Value* v, std::string_view op) {
  Node* const n = v && v->has_one_use() ? v->producer() : nullptr;
  return n && n->Is(op) ? n : nullptr;
}

class SpellingUnifier {
 public:
  explicit SpellingUnifier(Graph& g) : g_(g), editor_(g) {}

  Result<int> Run() {
    INFER_TRY(ForEachNode(g_, [this](Node& n) { return n.Is("Clip") ? MoveClip(n) : Status(); }));
    INFER_TRY(ForEachNode(g_, [this](Node& n) { return Merge(n); }));
    INFER_TRY(ForEachNode(
        g_, [this](Node& n) { return n.Is(Trait::kQuantize) ? QuantizeOnce(n) : Status(); }));
    INFER_TRY(ForEachNode(g_, [this](Node& n) { return IsMove(n) ? MoveCodes(n) : Status(); }));
    INFER_TRY(ForEachNode(
        g_, [this](Node& n) { return n.Is(Trait::kQuantize) ? JoinCodes(n) : Status(); }));
    INFER_TRY(ForEachNode(
        g_, [this](Node& n) { return n.Is(Trait::kQuantize) ? BetweenCodes(n) : Status(); }));
    INFER_TRY(
        ForEachNode(g_, [this](Node& n) { return n.Is(Trait::kSum) ? TakeBias(n) : Status(); }));
    if (changed_ > 0) editor_.Sweep();
    return changed_;
  }

 private:
  /// Bounds of codes, none where every code is within.
  struct CodeBounds {
    std::optional<int64_t> low, high;
  };
  static std::optional<CodeBounds> BoundsOf(const Node& clip) {
    CodeBounds b;
    const DType t = clip.input(0)->dtype();
    for (size_t i : {size_t{1}, size_t{2}}) {
      if (!clip.input(i)) continue;
      if (!IsOneNumber(clip.input(i))) return std::nullopt;
      const int64_t bound = clip.input(i)->constant()->IntAt(0);
      if (i == 1 && bound > IntegerMin(t)) b.low = bound;
      if (i == 2 && bound < IntegerMax(t)) b.high = bound;
    }
    return b;
  }

  /// Clip of codes as one of reals before their QuantizeLinear: both round alike, as bounds are
  /// codes.
  Status MoveClip(Node& clip) {
    Value* const codes = clip.input(0);
    if (!Is8Bit(codes) || !codes->producer()) return {};
    const auto bounds = BoundsOf(clip);
    if (!bounds) return {};
    if (!bounds->low && !bounds->high) return Skip(clip);
    Node* const q = OnlyMaker(codes, "QuantizeLinear");
    if (!q || !IsOneNumber(q->input(1)) || q->input(1)->dtype() != DType::kF32 ||
        (q->input(2) && !IsOneNumber(q->input(2))))
      return {};
    const auto scale = static_cast<float>(q->input(1)->constant()->At(0));
    const int64_t zero = q->input(2) ? q->input(2)->constant()->IntAt(0) : 0;
    const auto real = [&](int64_t code) { return static_cast<float>(code - zero) * scale; };
    if (!(scale > 0) || !IsF32(q->input(0))) return {};
    std::optional<float> low, high;
    if (bounds->low) low = real(*bounds->low);
    if (bounds->high) high = real(*bounds->high);
    Value* x = q->input(0);
    Node* const relu = OnlyMaker(x, "Relu");
    if (relu && (!high || *high >= 0)) {
      x = relu->input(0);
      low = std::max(low.value_or(0), 0.0f);
    }
    editor_.InsertBefore(*q);
    if (low && *low == 0 && !high) {
      INFER_ASSIGN(x, editor_.Add("Relu", {x}, {}, "", NamesOf(clip)));
    } else {
      std::vector<Value*> operands{x, low ? Number(*low) : nullptr};
      if (high) operands.push_back(Number(*high));
      INFER_ASSIGN(x, editor_.Add("Clip", std::move(operands), {}, "", NamesOf(clip)));
    }
    INFER_TRY(Requantize(*q, x, clip));
    if (relu && relu->output()->is_dead()) editor_.Erase(*relu);
    return {};
  }

  Value* Number(float v) { return editor_.AddConstant(Tensor::Scalar(v)); }

  /// Quantizes `x` as `q` does, in the place of `last`, the last reader of q's result.
  Status Requantize(Node& q, Value* x, Node& last) {
    std::vector<Value*> operands = q.inputs();
    operands[0] = x;
    INFER_ASSIGN(Value * y,
                 editor_.Add("QuantizeLinear", std::move(operands), q.attrs(), "", NamesOf(q)));
    INFER_TRY(ReplaceNode(editor_, last, y));
    if (q.output()->is_dead()) editor_.Erase(q);
    ++changed_;
    return {};
  }

  /// Readers of n's result read operand 0.
  Status Skip(Node& n) {
    Value *const x = n.input(0), *const y = n.output();
    if (y->is_output() || x->is_output() || !x->type().Refines(y->type())) return {};
    return Become(n, x);
  }
  Status Become(Node& n, Value* v) {
    INFER_TRY(editor_.ReplaceAllUses(n.output(), v));
    editor_.Erase(n);
    ++changed_;
    return {};
  }

  /// One QuantizeLinear or DequantizeLinear for all readers.
  Status Merge(Node& n) {
    if (!IsQuantizeOrDequantize(n)) return {};
    std::vector<Node*>& others = by_operand_[{n.input(0), &n.def()}];
    const auto twin = std::find_if(others.begin(), others.end(), [&](const Node* other) {
      return SameCodes(*other, n) && other->output()->type().Refines(n.output()->type());
    });
    if (twin != others.end() && !n.output()->is_output()) return Become(n, (*twin)->output());
    others.push_back(&n);
    return {};
  }

  /// The node behind `v`, read by nobody else, where it bounds numbers by constants.
  static Node* BoundBefore(const Value* v) {
    Node* const clip = OnlyMaker(v, "Clip");
    if (!clip) return OnlyMaker(v, "Relu");
    const auto fixed = [&](size_t i) { return !clip->input(i) || IsOneNumber(clip->input(i)); };
    return fixed(1) && fixed(2) ? clip : nullptr;
  }

  /// Codes that were dequantized and are quantized alike again: at once, or behind bounds, which
  /// may as well stand before the first rounding.
  Status QuantizeOnce(Node& n) {
    if (!Is8Bit(n.output())) return {};
    Node* const bound = BoundBefore(n.input(0));
    const Value* const real = bound ? bound->input(0) : n.input(0);
    Node* const dq = real->producer();
    if (!dq || !dq->Is(Trait::kDequantize) || !SameCodes(*dq, n)) return {};
    Value* const codes = dq->input(0);
    if (!bound) {
      if (n.output()->is_output() || !codes->type().Refines(n.output()->type())) return {};
      return Become(n, codes);
    }
    Node* const q = OnlyMaker(codes, "QuantizeLinear");
    if (!q || !real->has_one_use() || !SameCodes(*q, n)) return {};
    editor_.InsertBefore(*q);
    std::vector<Value*> operands = bound->inputs();
    operands[0] = q->input(0);
    INFER_ASSIGN(Value * x, editor_.Add(bound->op(), std::move(operands), bound->attrs(), "",
                                        NamesOf(*bound)));
    INFER_TRY(Requantize(*q, x, n));
    for (Node* dead : {bound, dq, q}) editor_.Erase(*dead);
    return {};
  }

  /// Every reader multiplies it by constant weights, at once or behind moves.
  static bool FeedsProducts(const Value& v, int depth = 0) {
    if (v.is_output() || v.uses().empty() || depth > kMostMoves) return false;
    return std::all_of(v.uses().begin(), v.uses().end(), [&](const Use& u) {
      const Node& n = *u.user;
      if (u.operand != 0) return false;
      if (IsMove(n)) return FeedsProducts(*n.output(), depth + 1);
      const Node* const w =
          n.Is(Trait::kContraction) && n.input(1) ? n.input(1)->producer() : nullptr;
      return w && w->Is(Trait::kDequantize) && w->input(0)->is_constant();
    });
  }

  /// A move of dequantized codes as a move of the codes: of constants always, of others where a
  /// product can take them then.
  Status MoveCodes(Node& n) {
    Node* const dq = n.input(0)->producer();
    if (!dq || !dq->Is(Trait::kDequantize) || !Is8Bit(dq->input(0)) ||
        dq->Attr<int64_t>("block_size") != 0)
      return {};
    Value* const codes = dq->input(0);
    const bool constant = codes->is_constant();
    if (constant ? n.output()->is_output() : !FeedsProducts(*n.output())) return {};
    AttrMap attrs = dq->attrs();
    if (!IsOneNumber(dq->input(1))) {
      const auto axis = MovedAxis(n, dq->Attr<int64_t>("axis"));
      if (!axis) return {};
      attrs["axis"] = *axis;
    }
    editor_.InsertBefore(n);
    std::vector<Value*> operands = n.inputs();
    operands[0] = codes;
    INFER_ASSIGN(Node * moved,
                 editor_.AddNode(n.def(), std::move(operands), n.attrs(), NamesOf(n)));
    Value* const result = moved->output();
    if (constant) {
      const auto values = EvaluateConstant(*moved, g_.ops());
      if (!values.ok()) return editor_.Erase(*moved), Status();
      editor_.SetConstant(result, (*values)[0].tensor());
      editor_.Erase(*moved);
    }
    INFER_ASSIGN(Value * real, editor_.Add("DequantizeLinear", {result, dq->input(1), dq->input(2)},
                                           std::move(attrs), "", NamesOf(*dq)));
    INFER_TRY(ReplaceNode(editor_, n, real));
    ++changed_;
    return {};
  }

  static bool IsOfCodes(const Value* v) {
    const Node* const dq = v->producer();
    return dq && dq->Is(Trait::kDequantize) && Is8Bit(dq->input(0));
  }

  /// Dequantized codes that are joined and quantized: each is quantized first, where its parameters
  /// are others than the result's, and codes are joined.
  Status JoinCodes(Node& q) {
    Node* const concat = OnlyMaker(q.input(0), "Concat");
    if (!concat || !Is8Bit(q.output()) || !IsOneNumber(q.input(1)) ||
        (q.input(2) && !q.input(2)->constant()) ||
        std::none_of(concat->inputs().begin(), concat->inputs().end(), IsOfCodes))
      return {};
    editor_.InsertBefore(*concat);
    std::vector<Value*> codes;
    for (Value* v : concat->inputs()) {
      const Node* const dq = v->producer();
      if (IsOfCodes(v) && SameCodes(*dq, q)) {
        codes.push_back(dq->input(0));
        continue;
      }
      std::vector<Value*> operands = q.inputs();
      operands[0] = v;
      INFER_ASSIGN(Value * of_one,
                   editor_.Add("QuantizeLinear", std::move(operands), q.attrs(), "", NamesOf(q)));
      codes.push_back(of_one);
    }
    INFER_ASSIGN(Value * joined,
                 editor_.Add("Concat", std::move(codes), concat->attrs(), "", NamesOf(*concat)));
    INFER_TRY(ReplaceNode(editor_, q, joined));
    if (concat->output()->is_dead()) editor_.Erase(*concat);
    ++changed_;
    return {};
  }

  /// Codes that become other codes: an Identity between is the operator around which a group forms,
  /// so that a table does it.
  Status BetweenCodes(Node& q) {
    const Value* const real = q.input(0);
    if (!IsOfCodes(real) || !Is8Bit(q.output()) || !IsOneNumber(q.input(1)) ||
        !IsOneNumber(real->producer()->input(1)))
      return {};
    editor_.InsertBefore(q);
    std::vector<Value*> operands = q.inputs();
    INFER_ASSIGN(operands[0], editor_.Add("Identity", {q.input(0)}));
    INFER_ASSIGN(Value * y,
                 editor_.Add("QuantizeLinear", std::move(operands), q.attrs(), "", NamesOf(q)));
    INFER_TRY(ReplaceNode(editor_, q, y));
    ++changed_;
    return {};
  }

  /// Where the axis of operand 0 is in the result.
  static std::optional<int64_t> MovedAxis(const Node& n, int64_t axis) {
    const Shape &from = n.input(0)->shape(), &to = n.output()->shape();
    if (!from.has_rank() || !to.has_rank()) return std::nullopt;
    if (axis < 0) axis += from.rank();
    const OpCall call = CallOf(n);
    for (int i = 0; i < to.rank(); ++i)
      if (const auto a = OperandAxis(call, 0, 0, i); a && *a == axis) return i;
    return std::nullopt;
  }

  /// One number per output channel of `product`, aligned with its result.
  static bool IsPerChannel(const Tensor& t, const WeightLayout& layout, int64_t channels,
                           int rank) {
    const int behind = layout.is_window ? rank - 2 : 0;  // axes behind that of the channels
    return t.dtype() == DType::kF32 && t.num_elements() == channels && t.rank() > behind &&
           t.rank() <= rank && t.dim(-1 - behind) == channels;
  }

  /// product + constant as the product's own bias.
  Status TakeBias(Node& add) {
    for (const size_t side : {size_t{0}, size_t{1}}) {
      Value* const made = add.input(side);
      const Value* const other = add.input(1 - side);
      Node* const product = made->has_one_use() ? made->producer() : nullptr;
      const auto layout = product ? WeightLayoutOf(*product) : std::nullopt;
      if (!layout || !other->constant() || product->input(2) || layout->outputs_in_groups) continue;
      const Node* const w = product->input(1)->producer();
      if (!w || !w->Is(Trait::kDequantize) || !w->input(0)->constant() ||
          !ReadsDequantized(*product) || !made->shape().has_rank())
        continue;
      const Dims& dims = w->input(0)->constant()->dims();
      const int rank = made->shape().rank();
      if (dims.size() < 2 || (!layout->is_window && (dims.size() != 2 || rank != 2))) continue;
      const int64_t channels = layout->OutputChannels(dims);
      if (!IsPerChannel(*other->constant(), *layout, channels, rank)) continue;
      editor_.InsertBefore(add);
      Value* const bias = editor_.AddConstant(other->constant()->Reshaped({channels}));
      INFER_ASSIGN(Value * y, editor_.Add(layout->is_window ? product->op() : "Gemm",
                                          {product->input(0), product->input(1), bias},
                                          product->attrs(), "", NamesOf(*product)));
      INFER_TRY(ReplaceNode(editor_, add, y));
      editor_.Erase(*product);
      ++changed_;
      return {};
    }
    return {};
  }

  Graph& g_;
  GraphEditor editor_;
  std::map<std::pair<const Value*, const OpDef*>, std::vector<Node*>> by_operand_;
  int changed_ = 0;
};

}  // namespace

Result<int> UnifyQuantSpellings(Graph& g) {
  return HasQuantization(g) ? SpellingUnifier(g).Run() : Result<int>(0);
}

}  // namespace infer
