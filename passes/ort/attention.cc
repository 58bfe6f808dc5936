/// Attention: masks as ONNX Runtime takes them, and self-attention with its projection as one
/// operator.
#include "passes/blocks/attention.h"

#include <numeric>

#include "lib/ir/mask_bounds.h"
#include "lib/support/strings.h"
#include "passes/ort/ort.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// Nothing that com.microsoft::Attention lacks: windows, caps, scores, other heads of keys.
Status CheckPlain(const Node& n) {
  for (size_t i = 1; i < n.outputs().size(); ++i)
    if (n.output(i) && !n.output(i)->is_dead()) return InvalidModel("needs one result");
  if (n.Attr<int64_t>("q_num_heads") != n.Attr<int64_t>("kv_num_heads"))
    return InvalidModel("needs as many heads of keys as of queries");
  for (const char* attr : {"softcap", "softmax_precision", "left_window_size", "right_window_size"})
    if (n.attrs().count(attr)) return InvalidModel(Cat("needs no ", attr));
  return {};
}

bool IsExtentOrOne(const Dim& d, const Dim& of) { return d.KnownEqual(1) || d.KnownEqual(of); }

/// [B or 1, N or 1, S, S], added to the scores.
bool IsScoreBias(const Value& mask, const Value& x, int64_t heads) {
  if (RankOf(mask) != 4 || mask.dtype() != DType::kF32) return false;
  const Shape &m = mask.shape(), &s = x.shape();
  return IsExtentOrOne(m[0], s[0]) && IsExtentOrOne(m[1], Dim(heads)) && m[2].KnownEqual(s[1]) &&
         m[3].KnownEqual(s[1]);
}

/// com.microsoft::Attention makes NaN of a query without keys, the standard's 0: `y` with 0 there.
/// A mask of one head tells where that is.
Result<Value*> ZeroWithoutKeys(Value* y, Value* mask, PatchBuilder& b) {
  INFER_ASSIGN(Value * most, b("ReduceMax", {mask, b.Ints({-1})}));
  INFER_ASSIGN(Value * hidden, b("IsInf", {most}, {{"detect_positive", int64_t{0}}}));
  INFER_ASSIGN(Value * clear, b("Squeeze", {hidden, b.Ints({1})}));
  return b("Where", {clear, b.Const(Tensor::Zeros(DType::kF32, {})), y});
}

/// [queries, 1]: numbers, or an extent of an input, so that all layers have one.
Result<Value*> MaskShape(const Dim& queries, Value* q, PatchBuilder& b) {
  if (queries.is_static()) return b.Ints({queries.value(), 1});
  auto length = ExtentFromInputs(queries, q, b);
  const int64_t axis = RankOf(*q) - 2;
  if (!length.ok()) length = b("Shape", {q}, {{"start", axis}, {"end", axis + 1}});
  INFER_TRY(length.status());
  return b("Concat", {*length, b.Ints({1})}, {{"axis", int64_t{0}}});
}

/// Queries, keys and values of one product, and what `rest` makes of them.
std::string Projected(std::string_view rest) {
  return Cat(
      "graph g(x: f32[N,S,4], m: f32[N,1,S,S]) -> (y) { w = const f32[4,12] ~1  "
      "b = const f32[12] ~2  z = const i64[3] {4, 4, 4}  t = MatMul(x, w)  p = Add(b, t)  "
      "q, k, v = Split(p, z) {axis=2}  ",
      rest, " }");
}

}  // namespace

Rule ExpandMaskRows() {
  Pattern q = Any(), mask = Any();
  Pattern root = Op("Attention", q, Any(), Any(), mask).MoreInputs().Shared();
  return {
      .name = "ort-mask-rows",
      .doc = "Attention(q, k, v, mask of one row) => the mask expanded to a row for every query",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int rank = RankOf(*m[q]), mask_rank = RankOf(*m[mask]);
        if (rank < 3 || mask_rank < 2)
          return InvalidModel("needs queries and a mask of known rank");
        const Dim& rows = m[mask]->shape()[mask_rank - 2];
        const Dim& queries = m[q]->shape()[rank - 2];
        if (!rows.KnownEqual(1) || queries.KnownEqual(1) || queries.is_unknown())
          return InvalidModel("needs a mask of one row");
        INFER_ASSIGN(Value * shape, MaskShape(queries, m[q], b));
        INFER_ASSIGN(Value * expanded, b("Expand", {m[mask], shape}));
        const Node& n = m.node(root);
        std::vector<Value*> operands(n.inputs().begin(), n.inputs().end());
        operands[3] = expanded;
        return AttentionAgain(n, std::move(operands), n.attrs(), b);
      },
      .fires_on = {R"(graph g(q: f32[N,2,S,4], k: f32[N,2,T,4], v: f32[N,2,T,4], m: f32[N,1,1,T])
             -> (y) { y = Attention(q, k, v, m) })",
                   R"(graph g(q: f32[N,2,3,4], k: f32[N,2,5,4], v: f32[N,2,5,4], pk: f32[N,2,2,4],
             pv: f32[N,2,2,4], m: bool[1,7]) -> (y, nk) {
             y, nk, nv = Attention(q, k, v, m, pk, pv) })"},
      .silent_on = {{R"(graph g(q: f32[N,2,S,4], k: f32[N,2,T,4], v: f32[N,2,T,4], m: f32[S,T])
             -> (y) { y = Attention(q, k, v, m) })",
                     "a mask of one row"},
                    {R"(graph g(q: f32[*], k: f32[N,2,T,4], v: f32[N,2,T,4], m: f32[1,T])
             -> (y) { y = Attention(q, k, v, m) })",
                     "of known rank"}},
  };
}

Rule FuseSelfAttention() {
  Pattern x = Any(), w = Any(), bias = Any(), mask = Any().OrOmitted();
  Pattern product = Op("MatMul", x, w), sum = Op("Add", product, bias);
  const auto parts = OpResults("Split", {OneOf({sum, product}), Constant()}, 3);
  Pattern root = Op("Attention", parts[0], parts[1], parts[2], mask);
  return {
      .name = "ort-self-attention",
      .doc = "Attention(Split(x * w + b), mask) => com.microsoft::Attention(x, w, b, mask)",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node &n = m.node(root), &split = m.node(parts[0]);
        INFER_TRY(CheckPlain(n));
        if (m[x]->dtype() != DType::kF32 || RankOf(*m[x]) != 3 || RankOf(*m[w]) != 2)
          return InvalidModel("needs an f32 input of rank 3 and a matrix of weights");
        for (const Value* v : {m[x], m[w]})
          if (DequantizeBefore(v)) return InvalidModel("needs operands that are not dequantized");
        const auto axis = split.Attr<int64_t>("axis");
        const auto sizes = ConstantInts(split, 1);
        if ((axis != -1 && axis != 2) || !sizes || (*sizes)[0] != (*sizes)[1])
          return InvalidModel("needs a Split of the last axis, with queries as wide as keys");
        const auto heads = n.Attr<int64_t>("q_num_heads");
        Value* added = m.Has(mask) ? m[mask] : nullptr;
        if (added && !IsScoreBias(*added, *m[x], heads))
          return InvalidModel("needs a mask of f32 with a row for every query");
        if (m.Has(sum) && (RankOf(*m[bias]) != 1 || !SameKnownType(*m[sum], *m[product])))
          return InvalidModel("needs a bias along the last axis");
        AttrMap attrs = {{"num_heads", heads}};
        if ((*sizes)[2] != (*sizes)[0]) attrs["qkv_hidden_sizes"] = *sizes;
        if (n.attrs().count("scale")) attrs["scale"] = n.Attr<float>("scale");
        if (n.Attr<int64_t>("is_causal") != 0) attrs["unidirectional"] = int64_t{1};
        // ONNX Runtime up to 1.30 reads the bias whether it is there or not.
        Value* const given =
            m.Has(sum)
                ? m[bias]
                : b.Const(Tensor::Zeros(
                      DType::kF32, {std::accumulate(sizes->begin(), sizes->end(), int64_t{0})}));
        const bool clears = MustMakeZeroWithoutKeys(n);
        if (clears && (n.Attr<int64_t>("is_causal") != 0 || !added->shape()[1].KnownEqual(1)))
          return InvalidModel("needs a mask of one head where it may hide all keys of a query");
        INFER_ASSIGN(Value * y, b("com.microsoft::Attention",
                                  {m[x], m[w], given, nullptr, nullptr, added}, std::move(attrs)));
        return clears ? ZeroWithoutKeys(y, added, b) : y;
      },
      .fires_on = {Projected("y = Attention(q, k, v) {q_num_heads=2, kv_num_heads=2}"),
                   Projected(
                       "y = Attention(q, k, v, m) {q_num_heads=2, kv_num_heads=2, scale=0.3}"),
                   Projected("y = Attention(q, k, v) {q_num_heads=2, kv_num_heads=2, is_causal=1}"),
                   Projected("c = Cast(m) {to=9}  s = const f32[] {-inf}  o = const f32[] {0} "
                             "a = Where(c, o, s)  y = Attention(q, k, v, a) {q_num_heads=2, "
                             "kv_num_heads=2, is_causal=1, without_keys=1}"),
                   R"(graph g(x: f32[N,S,4]) -> (y) { w = const f32[4,14] ~1
             z = const i64[3] {4, 4, 6}  p = MatMul(x, w)  q, k, v = Split(p, z) {axis=-1}
             y = Attention(q, k, v) {q_num_heads=2, kv_num_heads=2} })"},
      .silent_on =
          {{Projected("y = Attention(q, k, v) {q_num_heads=2, kv_num_heads=2, softcap=2.0}"),
            "needs no softcap"},
           {Projected("o = const f32[1,1] {1}  y = Attention(q, k, v, o) {q_num_heads=2, "
                      "kv_num_heads=2}"),
            "a row for every query"},
           {Projected("y = Attention(q, k, v, m) {q_num_heads=2, kv_num_heads=2, is_causal=1}"),
            "of one head where it may hide all"},
           {R"(graph g(x: f16[N,S,4]) -> (y) { w = const f16[4,12] ~1  z = const i64[3] {4, 4, 4}
             p = MatMul(x, w)  q, k, v = Split(p, z) {axis=-1}
             y = Attention(q, k, v) {q_num_heads=2, kv_num_heads=2} })",
            "an f32 input of rank 3"},
           {R"(graph g(x: f32[N,S,4]) -> (y) { w = const f32[4,8] ~1  z = const i64[3] {4, 2, 2}
             p = MatMul(x, w)  q, k, v = Split(p, z) {axis=-1}
             y = Attention(q, k, v) {q_num_heads=2, kv_num_heads=1} })",
            "as many heads"},
           {R"(graph g(x: f32[6,5,4]) -> (y) { w = const f32[4,4] ~1  z = const i64[3] {2, 2, 2}
             p = MatMul(x, w)  q, k, v = Split(p, z) {axis=0}
             y = Attention(q, k, v) {q_num_heads=2, kv_num_heads=2} })",
            "a Split of the last axis"},
           {R"(graph g(x: f32[N,S,4], b: f32[2,1,12]) -> (y) { w = const f32[4,12] ~1
             z = const i64[3] {4, 4, 4}  t = MatMul(x, w)  p = Add(t, b)
             q, k, v = Split(p, z) {axis=-1}  y = Attention(q, k, v) {q_num_heads=2,
             kv_num_heads=2} })",
            "a bias along the last axis"},
           {R"(graph g(x: f32[N,S,4], c: u8[4,12]) -> (y) { s = const f32[] {0.1}
             w = DequantizeLinear(c, s)  z = const i64[3] {4, 4, 4}  p = MatMul(x, w)
             q, k, v = Split(p, z) {axis=-1}  y = Attention(q, k, v) {q_num_heads=2,
             kv_num_heads=2} })",
            "not dequantized"}},
  };
}

}  // namespace infer
