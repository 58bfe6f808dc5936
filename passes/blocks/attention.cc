/// Scaled dot-product attention as exporters write it, in four axes [batch, heads, length, size] or
/// in three (one head, or batch and heads folded into one axis).
#include "passes/blocks/attention.h"

#include <algorithm>

#include "lib/ops/notes.h"
#include "passes/blocks/attention_mask.h"
#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"
#include "passes/rewrite/same_extent.h"

namespace infer {
namespace {

/// x, x * c or x / c.
struct ScaleStep {
  explicit ScaleStep(const Pattern& x)
      : times(Scalar()),
        over(Scalar()),
        product(Op("Mul", x, times)),
        quotient(Op("Div", x, over)),
        self(OneOf({product, quotient, x})) {}
  double Factor(const Match& m) const {
    if (m.Has(product)) return m.scalar(times);
    return m.Has(quotient) ? 1 / m.scalar(over) : 1;
  }
  Pattern times, over, product, quotient, self;
};

/// From the operands to the root. Casts around the Softmax are those of 16-bit networks.
struct AttentionPattern {
  Pattern q, k, turned = Op("Transpose", k).Shared(), other, v;
  ScaleStep key_scale = ScaleStep(OneOf({turned, other}));
  Pattern scores = Op("MatMul", q, key_scale.self);
  ScaleStep scale = ScaleStep(Optional("Cast", scores));
  // As BART does: heads are folded into the batch, but for the mask.
  Pattern unfold_to, unfolded = Op("Reshape", scale.self, unfold_to);
  // As Gemma 2 does: cap * tanh(scores / cap).
  ScaleStep ratio = ScaleStep(OneOf({unfolded, scale.self}));
  Pattern cap = Scalar(), capped = Op("Mul", Op("Tanh", ratio.self), cap);
  MaskStep first = MaskStep(OneOf({capped, unfolded, scale.self}));
  ScaleStep later_scale = ScaleStep(first.self);
  MaskStep second = MaskStep(later_scale.self);
  // As OPT does: no score is -inf.
  Pattern bounded = Op("Max", second.self, Lowest()), last = OneOf({bounded, second.self});
  Pattern fold_to, folded = Op("Reshape", last, fold_to);
  Pattern masked = OneOf({folded, last});
  Pattern softmax =
      Op("Softmax", Optional("Cast", masked)).Where("over the last axis", [](const Value& p) {
        const auto axis = p.producer()->Attr<int64_t>("axis");
        return axis == -1 || axis + 1 == RankOf(p);
      });
  Pattern zero_kept, zero_dropped = Any().Where("a mask", [](const Value& c) {
    return !c.producer() || !c.producer()->Is("IsNaN");
  });
  Pattern clear_dropped = Op("Where", zero_dropped, Number(0), softmax);
  Pattern clear_kept = Op("Where", zero_kept, softmax, Number(0));
  Pattern clear_nan = Op("Where", Op("IsNaN", softmax), Number(0), softmax);
  // As Attention is defined: 0 where the largest score is -inf.
  Pattern top = Op("ReduceMax", masked, Number(-1)).With("keepdims", int64_t{1});
  Pattern clear_none = Op("Where", Op("Less", top, Lowest()), Number(0), softmax);
  Pattern cleared = OneOf({clear_nan, clear_none, clear_dropped, clear_kept, softmax});
  Pattern root = Op("MatMul", Optional("Cast", cleared), v);
};

/// nullptr, or why the shapes are not those of attention. `fold`: 4 axes for the mask, else 3.
const char* WhyNot(const Match& m, const AttentionPattern& p) {
  const Value &q = *m[p.q], &kt = *m[p.key_scale.self], &v = *m[p.v], &scores = *m[p.scores];
  const int rank = RankOf(scores);
  if (rank != 3 && rank != 4) return "needs scores of three or four axes";
  if (RankOf(q) != rank || RankOf(kt) != rank || RankOf(v) != rank)
    return "needs queries, keys and values of one rank";
  if (q.dtype() != v.dtype() || m.root()->dtype() != q.dtype() || !IsFloat(m[p.softmax]->dtype()))
    return "needs one type of queries, keys and values";
  if (!SameDim(q, 0, kt, 0) || !SameDim(q, 0, v, 0))
    return "needs one batch of queries, keys and values";
  if (rank == 4 && (!SameDim(kt, 1, v, 1) || (StaticDim(kt, 1) != 1 && !SameDim(q, 1, kt, 1))))
    return "needs as many heads of queries, keys and values, or one of keys and values";
  if (!SameDim(kt, -1, v, -2)) return "needs as many keys as values";
  const Value &masked = *m[p.masked], &unmasked = m.Has(p.unfolded) ? *m[p.unfolded] : scores;
  const Value& last = m.Has(p.folded) ? *m[p.last] : masked;
  if (RankOf(last) != RankOf(unmasked)) return "needs a mask of known rank, at most the scores'";
  for (int i = 0; i + 1 < RankOf(unmasked); ++i)
    if (!FitsExtent(last, i, unmasked, i)) return "needs a mask that repeats no scores";
  return nullptr;
}

struct Operands {
  Value *q, *k, *v;
};

/// Query heads that share keys, as further queries: [B,H,S,D] seen as [B,G,H/G*S,D].
bool AreGrouped(const Match& m, const AttentionPattern& p) {
  return m.Has(p.unfolded) && RankOf(*m[p.scores]) == 4;
}

/// Scores [B,G,H/G*S,T] seen as [B,H,S,T] for the mask: q must come from [B,H,S,D].
Result<Operands> Ungrouped(const Match& m, const AttentionPattern& p, PatchBuilder& b) {
  const Value &four = *m[p.unfolded], &scores = *m[p.scores], &q = *m[p.q];
  const Node* const reshape = q.producer();
  const auto heads = StaticDim(four, 1), groups = StaticDim(scores, 1);
  const auto refuse = [] { return InvalidModel("needs queries grouped from four axes"); };
  if (!reshape || !reshape->Is("Reshape") || RankOf(four) != 4 || !m.Has(p.folded) ||
      RankOf(*m[p.folded]) != 4 || !heads || !groups || *groups < 1 || *heads % *groups != 0)
    return refuse();
  Value* const by_head = reshape->input(0);
  if (RankOf(*by_head) != 4 || !SameDim(*by_head, 3, q, 3)) return refuse();
  for (int i : {0, 3})
    if (!SameDim(four, i, scores, i)) return refuse();
  for (int i : {0, 1, 2})
    if (!SameDim(*by_head, i, four, i)) return refuse();
  for (int i = 0; i < 4; ++i)
    if (!SameDim(*m[p.folded], i, scores, i)) return refuse();
  INFER_ASSIGN(Value * k, WithLastTwoExchanged(m.Has(p.turned) ? m[p.turned] : m[p.other], b));
  return Operands{by_head, k, m[p.v]};
}

/// Scores [B*H,S,T] seen as [B,H,S,T] for the mask: then q, k and v must come from four axes.
Result<Operands> Unfolded(const Match& m, const AttentionPattern& p, PatchBuilder& b) {
  const Value &four = *m[p.unfolded], &scores = *m[p.scores];
  const auto refuse = [] { return InvalidModel("needs q, k and v folded from four axes"); };
  if (RankOf(scores) != 3 || RankOf(four) != 4 || !m.Has(p.folded) || RankOf(*m[p.folded]) != 3 ||
      !SameDim(four, 2, scores, 1) || !SameDim(four, 3, scores, 2))
    return refuse();
  for (int i = 0; i < 3; ++i)
    if (!SameDim(*m[p.folded], i, scores, i)) return refuse();
  Operands o{BeforeHeadsWereFolded(*m[p.q]), nullptr, BeforeHeadsWereFolded(*m[p.v])};
  if (m.Has(p.turned) && PermOf(m.node(p.turned)) == std::vector<int64_t>{0, 2, 1})
    o.k = BeforeHeadsWereFolded(*m[p.k]);
  else if (m.Has(p.other) && BeforeHeadsWereFolded(*m[p.other])) {
    INFER_ASSIGN(o.k, WithLastTwoExchanged(BeforeHeadsWereFolded(*m[p.other]), b));
  }
  if (!o.q || !o.k || !o.v) return refuse();
  for (const Value* v : {o.q, o.k, o.v})
    for (int i : {0, 1})
      if (!SameDim(*v, i, four, i)) return refuse();
  return o;
}

Result<Value*> Build(const Match& m, const AttentionPattern& p, PatchBuilder& b) {
  if (const char* why = WhyNot(m, p)) return InvalidModel(why);
  Operands o{m[p.q], nullptr, m[p.v]};
  if (m.Has(p.unfolded) || m.Has(p.folded)) {
    if (!m.Has(p.unfolded) || !m.Has(p.folded))
      return InvalidModel("needs the scores' shape at the Softmax");
    INFER_ASSIGN(o, AreGrouped(m, p) ? Ungrouped(m, p, b) : Unfolded(m, p, b));
  } else {
    INFER_ASSIGN(o.k, WithLastTwoExchanged(m.Has(p.turned) ? m[p.turned] : m[p.other], b));
  }
  const Value* zeroed = nullptr;
  if (m.Has(p.clear_dropped)) zeroed = m[p.zero_dropped];
  if (m.Has(p.clear_kept)) zeroed = m[p.zero_kept];
  ScoreMask mask(m.Has(p.unfolded) ? *m[p.unfolded] : *m[p.scores], b);
  INFER_TRY(mask.Add(m, p.first, zeroed));
  const double later = p.later_scale.Factor(m);
  INFER_TRY(mask.Scale(later));
  INFER_TRY(mask.Add(m, p.second, zeroed));
  if (m.Has(p.bounded)) INFER_TRY(mask.Bound());
  if (zeroed && !mask.explains_zeroes())
    return InvalidModel("needs zeroes where the scores are masked, nowhere else");
  INFER_ASSIGN(Value * attn_mask, mask.Finish(o.v));
  const double cap = m.Has(p.capped) ? m.scalar(p.cap) : 1;
  if (!(cap > 0)) return InvalidModel("needs a positive bound of the scores");
  const double scale = p.key_scale.Factor(m) * p.scale.Factor(m) * p.ratio.Factor(m) * cap * later;
  AttrMap attrs = {{"scale", static_cast<float>(scale)}};
  if (m.Has(p.capped)) attrs["softcap"] = static_cast<float>(cap * later);
  if (mask.causal()) attrs["is_causal"] = int64_t{1};
  if (attn_mask && !zeroed && !m.Has(p.clear_none)) {
    const auto was = m.Has(p.clear_nan) ? WithoutKeys::kNanIsZero : WithoutKeys::kAny;
    attrs.emplace(kWithoutKeys, static_cast<int64_t>(was));
  }
  if (m[p.softmax]->dtype() != m[p.q]->dtype() && m[p.softmax]->dtype() == DType::kF32)
    attrs["softmax_precision"] = int64_t{1};  // FLOAT
  if (RankOf(*o.q) == 3) attrs["q_num_heads"] = attrs["kv_num_heads"] = int64_t{1};
  INFER_ASSIGN(Value * y, b("Attention", {o.q, o.k, o.v, attn_mask}, std::move(attrs)));
  if (!m.Has(p.unfolded)) return y;
  if (AreGrouped(m, p)) return b("Reshape", {y, b.Ints({0, *StaticDim(*m[p.scores], 1), -1, 0})});
  // Back to [B*H,S,D]: the values were folded so, but have another length.
  const auto size = StaticDim(*y, 3), heads = StaticDim(*y, 1);
  if (StaticDim(*y, 0) && heads && size)
    return b("Reshape", {y, b.Ints({*StaticDim(*y, 0) * *heads, -1, *size})});
  Value* fold_queries = m[p.q]->producer()->input(1);
  if (!SameDim(*o.q, 3, *o.v, 3)) return InvalidModel("needs values of the queries' size");
  return b("Reshape", {y, fold_queries}, m[p.q]->producer()->attrs());
}

constexpr const char* kHead = R"(graph g(q: f32[N,2,S,4], k: f32[N,2,T,4], v: f32[N,2,T,3]) -> (y) {
  c = const f32[] {0.5}  d = const f32[] {2}  low = const f32[] {-1e9}
  kt = Transpose(k) {perm=[0,1,3,2]}  )";
constexpr const char* kSquare = R"(graph g(q: f32[2,2,3,4], k: f32[2,2,3,4], v: f32[2,2,3,4])
  -> (y) { tri = const bool[1,1,3,3] {1,0,0,1,1,0,1,1,1}  low = const f32[] {-10000}
  kt = Transpose(k) {perm=[0,1,3,2]}  s = MatMul(q, kt)  )";
constexpr const char* kMasked = R"(graph g(q: f32[N,2,S,4], k: f32[N,2,T,4], v: f32[N,2,T,4],
  m: f32[N,1,1,T], a: bool[N,1,S,T]) -> (y) { low = const f32[] {-10000}  inf = const f32[] {-inf}
  c = const f32[] {0.5}  d = const f32[] {2}  o = const f32[] {0}
  kt = Transpose(k) {perm=[0,1,3,2]}  s = MatMul(q, kt)  )";
constexpr const char* kGrouped = R"(graph g(x: f32[N,4,S,8], k: f32[N,2,T,8], v: f32[N,2,T,3],
  m: f32[N,1,S,T]) -> (y) { c = const f32[] {0.5}  g = const i64[4] {0,2,-1,0}
  h = const i64[4] {0,4,-1,0}  x1 = Mul(x, c)  q = Reshape(x1, g)
  kt = Transpose(k) {perm=[0,1,3,2]}  s = MatMul(q, kt)  s4 = Reshape(s, h)  )";
constexpr const char* kFolded = R"(graph g(x: f32[2,5,8], z: f32[2,6,8], m: f32[2,1,5,6]) -> (y) {
  h = const i64[4] {0,0,2,4}  f = const i64[3] {4,-1,4}  u = const i64[4] {2,2,5,6}
  w = const i64[3] {4,5,6}  x1 = Reshape(x, h)  x2 = Transpose(x1) {perm=[0,2,1,3]}
  q = Reshape(x2, f)  z1 = Reshape(z, h)  z2 = Transpose(z1) {perm=[0,2,1,3]}
  k = Reshape(z2, f)  v = Reshape(z2, f)  kt = Transpose(k) {perm=[0,2,1]}
  s = MatMul(q, kt)  )";
std::string Graph1(const char* head, std::string_view rest) {
  return std::string(head) + std::string(rest);
}

}  // namespace

Rule FuseAttention() {
  const AttentionPattern p;
  return {
      .name = "fuse-attention",
      .doc = "MatMul(Softmax(scale * q * Transpose(k) + mask), v) => Attention(q, k, v, mask)",
      .match = p.root,
      .build = [=](const Match& m, PatchBuilder& b) { return Build(m, p, b); },
      .fires_on =
          {Graph1(kHead, "s = MatMul(q, kt)  t = Mul(s, c)  p = Softmax(t)  y = MatMul(p, v) }"),
           Graph1(kHead,
                  "s = MatMul(q, kt)  t = Div(s, d)  p = Softmax(t) {axis=3}  y = MatMul(p, v) }"),
           Graph1(kHead, R"(s = MatMul(q, kt)  t = Mul(s, c)  a = Tanh(t)  b = Mul(a, d)
                            p = Softmax(b)  y = MatMul(p, v) })"),
           Graph1(kMasked, R"(t = Div(s, d)  a1 = Tanh(t)  b = Mul(a1, d)  r = Add(b, m)
                              p = Softmax(r)  y = MatMul(p, v) })"),
           Graph1(kHead, R"(k2 = Mul(kt, c)  s = MatMul(q, k2)  p = Softmax(s)  z = IsNaN(p)
                            o = const f32[] {0}  w = Where(z, o, p)  y = MatMul(w, v) })"),
           Graph1(kSquare, "t = Where(tri, s, low)  p = Softmax(t)  y = MatMul(p, v) }"),
           Graph1(kSquare, R"(a = const f32[3,3] {0,-inf,-inf,0,0,-inf,0,0,0}  t = Add(a, s)
                              p = Softmax(t)  y = MatMul(p, v) })"),
           Graph1(kSquare, R"(a = const f32[1,1,3,3] ~1  t = Add(s, a)  r = Where(tri, t, low)
                              p = Softmax(r)  y = MatMul(p, v) })"),
           Graph1(kMasked, "t = Mul(s, c)  r = Add(m, t)  p = Softmax(r)  y = MatMul(p, v) }"),
           Graph1(kMasked, R"(e = const f32[] {-3.4028235e+38}  r = Add(m, s)  t = Max(r, e)
                              p = Softmax(t)  y = MatMul(p, v) })"),
           Graph1(kMasked, R"(e = const f32[] {-3.4028235e+38}  h = Where(a, o, e)  r = Add(s, h)
                              t = Max(r, e)  p = Softmax(t)  y = MatMul(p, v) })"),
           Graph1(kMasked, "t = Sub(s, m)  r = Div(t, d)  p = Softmax(r)  y = MatMul(p, v) }"),
           Graph1(kMasked, R"(t = Add(s, m)  r = Mul(t, c)  n = Not(a)  w = Where(n, low, r)
                              p = Softmax(w)  y = MatMul(p, v) })"),
           Graph1(kMasked, R"(t = Where(a, s, inf)  p = Softmax(t)  z = IsNaN(p)
                              w = Where(z, o, p)  y = MatMul(w, v) })"),
           Graph1(kMasked, R"(e = const f32[] {-3.4028235e+38}  l = const i64[1] {-1}
                              i = Less(m, e)  j = Not(i)  x = Add(s, m)  t = Where(j, x, inf)
                              p = Softmax(t)  r = ReduceMax(t, l)  z = Less(r, e)
                              w = Where(z, o, p)  y = MatMul(w, v) })"),
           Graph1(kMasked, R"(e = const f32[] {-3.4028235e+38}  l = const i64[1] {-1}
                              t = Where(a, s, inf)  p = Softmax(t)  r = ReduceMax(t, l)
                              z = Less(r, e)  w = Where(z, o, p)  y = MatMul(w, v) })"),
           R"(graph g(q: f32[2,2,S,4], kt: f32[2,2,4,T], v: f32[2,2,T,3], m: f32[2,1,1,T])
             -> (y) {
             tri = const f32[1,1,4,4] {1,0,0,0,1,1,0,0,1,1,1,0,1,1,1,1}  low = const f32[] {-10000}
             z = const i64[1] {0}  a = const i64[1] {2}  b = const i64[1] {3}
             e = Shape(q) {start=2, end=3}  f = Shape(v) {start=2, end=3}
             c1 = Slice(tri, z, e, a)  c2 = Slice(c1, z, f, b)  c = Cast(c2) {to=9}
             s = MatMul(q, kt)  t = Where(c, s, low)  r = Add(t, m)  p = Softmax(r)
             y = MatMul(p, v) })",
           Graph1(kMasked, R"(n = Not(a)  t = Where(n, low, s)  p = Softmax(t)  z = Where(n, o, p)
                              y = MatMul(z, v) })"),
           Graph1(kMasked, R"(t = Where(a, s, low)  p = Softmax(t)  z = Where(a, p, o)
                              y = MatMul(z, v) })"),
           R"(graph g(q: f32[N,S,4], kt: f32[N,4,T], v: f32[N,T,3], m: f32[N,1,T]) -> (y) {
             s = MatMul(q, kt)  t = Add(s, m)  p = Softmax(t)  y = MatMul(p, v) })",
           R"(graph g(q: f32[2,4,S,8], kt: f32[2,1,8,T], v: f32[2,1,T,3], m: f32[U]) -> (y) {
             s = MatMul(q, kt)  t = Add(s, m)  p = Softmax(t)  y = MatMul(p, v) })",
           R"(graph g(q: f32[2,4,S,8], kt: f32[2,4,8,S], v: f32[2,4,S,8]) -> (y) {
             s = MatMul(q, kt)  t = Cast(s) {to=11}  p = Softmax(t)  r = Cast(p) {to=1}
             y = MatMul(r, v) })",
           // Keys and values of as many tokens as nobody says.
           R"(graph g(x: f32[2,?,8], past: f32[2,2,P,4], m: f32[2,1,1,T]) -> (y) {
             w = const f32[8,8] ~1  u = const f32[8,8] ~2  to = const i64[4] {0,-1,2,4}
             k1 = MatMul(x, w)  k2 = Reshape(k1, to)  k3 = Transpose(k2) {perm=[0,2,1,3]}
             k = Concat(past, k3) {axis=2}  kt = Transpose(k) {perm=[0,1,3,2]}
             v1 = MatMul(x, u)  v2 = Reshape(v1, to)  v3 = Transpose(v2) {perm=[0,2,1,3]}
             v = Concat(past, v3) {axis=2}
             s = MatMul(k3, kt)  p = Softmax(s)  y = MatMul(p, v) })",
           Graph1(kGrouped,
                  "t = Add(s4, m)  r = Reshape(t, g)  p = Softmax(r)  z = MatMul(p, v)  y = "
                  "Reshape(z, h) }"),
           Graph1(kGrouped, R"(u = Div(s4, c)  b = Tanh(u)  w = Mul(b, c)  e = Add(w, m)
                  r = Reshape(e, g)  p = Softmax(r)  z = MatMul(p, v)  y = Reshape(z, h) })"),
           Graph1(kFolded,
                  R"(s4 = Reshape(s, u)  t = Add(s4, m)  s3 = Reshape(t, w)  p = Softmax(s3)
                              y = MatMul(p, v) })")},
      .silent_on =
          {{Graph1(kHead, "s = MatMul(q, kt)  p = Softmax(s) {axis=2}  y = MatMul(p, v) }"),
            "over the last axis"},
           {R"(graph g(q: f32[2,2,3,4], kt: f32[2,2,4,3], v: f32[2,2,3,4]) -> (y, p) {
             s = MatMul(q, kt)  p = Softmax(s)  y = MatMul(p, v) })",
            "'p' has other uses"},
           {R"(graph g(q: f32[2,2,3,4], kt: f32[2,2,4,3], v: f32[2,2,3,4]) -> (y, s) {
             s = MatMul(q, kt)  p = Softmax(s)  y = MatMul(p, v) })",
            "'s' has other uses"},
           {R"(graph g(q: f32[3,4], kt: f32[4,3], v: f32[3,4]) -> (y) {
             s = MatMul(q, kt)  p = Softmax(s)  y = MatMul(p, v) })",
            "scores of three or four axes"},
           {R"(graph g(q: f32[2,2,3,4], kt: f32[4,3], v: f32[3,4]) -> (y) {
             s = MatMul(q, kt)  p = Softmax(s)  y = MatMul(p, v) })",
            "of one rank"},
           {R"(graph g(q: f32[1,2,3,4], kt: f32[2,2,4,3], v: f32[2,2,3,4]) -> (y) {
             s = MatMul(q, kt)  p = Softmax(s)  y = MatMul(p, v) })",
            "one batch"},
           {R"(graph g(q: f32[2,2,3,4], kt: f32[2,2,4,3], v: f32[2,1,3,4]) -> (y) {
             s = MatMul(q, kt)  p = Softmax(s)  y = MatMul(p, v) })",
            "as many heads"},
           {R"(graph g(q: f32[2,2,3,4], kt: f32[2,2,4,1], v: f32[2,2,3,4], m: f32[3]) -> (y) {
             s = MatMul(q, kt)  t = Add(s, m)  p = Softmax(t)  y = MatMul(p, v) })",
            "as many keys as values"},
           {R"(graph g(q: f32[2,2,1,4], kt: f32[2,2,4,3], v: f32[2,2,3,4], m: f32[5,1]) -> (y) {
             s = MatMul(q, kt)  t = Add(s, m)  p = Softmax(t)  y = MatMul(p, v) })",
            "a mask that repeats no scores"},
           {R"(graph g(q: f32[2,2,3,4], kt: f32[2,2,4,3], v: f32[2,2,3,4], a: bool[3,3]) -> (y) {
             low = const f32[] {-5}  s = MatMul(q, kt)  t = Where(a, s, low)  p = Softmax(t)
             y = MatMul(p, v) })",
            "'low' is not a number that hides a score"},
           {Graph1(kMasked, R"(n = Not(a)  t = Where(n, low, s)  p = Softmax(t)
                               b = const bool[] {0}  z = Where(b, o, p)  y = MatMul(z, v) })"),
            "zeroes where the scores are masked"},
           {Graph1(kFolded, R"(s4 = Reshape(s, u)  t = Add(s4, m)  s3 = Reshape(t, w)
                     p = Softmax(s3)  g = const f32[1,1,4] {1,1,1,1}  v2 = Mul(v, g)
                     y = MatMul(p, v2) })"),
            "folded from four axes"},
           {R"(graph g(q: f32[N,2,6,8], kt: f32[N,2,8,T], v: f32[N,2,T,3], m: f32[N,1,3,T]) -> (y) {
             g = const i64[4] {0,2,-1,0}  h = const i64[4] {0,4,-1,0}  s = MatMul(q, kt)
             s4 = Reshape(s, h)  t = Add(s4, m)  r = Reshape(t, g)  p = Softmax(r)
             y = MatMul(p, v) })",
            "grouped from four axes"},
           {Graph1(kMasked, R"(e = const f32[] {-3.4028235e+38}  r = Where(a, s, inf)
                               t = Max(r, e)  p = Softmax(t)  y = MatMul(p, v) })"),
            "a mask of numbers"},
           {Graph1(kMasked, R"(t = Where(a, s, low)  r = Add(t, m)  p = Softmax(r)
                               y = MatMul(p, v) })"),
            "leaves every query a key"},
           {R"(graph g(q: f32[2,2,3,4], kt: f32[2,2,4,3], v: f32[2,2,3,4], m: f32[3,3]) -> (y) {
             d = const f32[] {-2}  s = MatMul(q, kt)  t = Add(s, m)  r = Mul(t, d)  p = Softmax(r)
             y = MatMul(p, v) })",
            "positive factors"},
           {Graph1(kHead, R"(s = MatMul(q, kt)  a = Tanh(s)  e = const f32[] {-2}  b = Mul(a, e)
                             p = Softmax(b)  y = MatMul(p, v) })"),
            "a positive bound of the scores"}},
  };
}

}  // namespace infer
