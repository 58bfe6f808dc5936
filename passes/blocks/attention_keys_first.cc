/// Attention that is written with the keys first: K * transposed Q, a Softmax over the keys' axis,
/// which is not the last, or transpositions around it. tf2onnx and Keras' einsum leave it so.
#include "passes/blocks/attention.h"
#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

bool ExchangesLast(const Value& v) {
  const int rank = RankOf(v);
  std::vector<int64_t> perm = PermOf(*v.producer());
  if (rank < 3 || static_cast<int>(perm.size()) != rank) return false;
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return IsIdentityPerm(perm);
}

}  // namespace

Rule TurnKeysFirst() {
  Pattern k = Any(), qt = Any(), v = Any(), vt = Any(), factor = Scalar(), mask = Any();
  Pattern scores = Op("MatMul", k, qt);
  Pattern product = Op("Mul", scores, factor), quotient = Op("Div", scores, factor);
  Pattern scaled = OneOf({product, quotient, scores});
  Pattern added = Op("Add", scaled, mask);
  Pattern softmax =
      Op("Softmax", OneOf({added, scaled})).Where("over the last axis but one", [](const Value& p) {
        const auto axis = p.producer()->Attr<int64_t>("axis");
        return RankOf(p) >= 3 && (axis == -2 || axis + 2 == RankOf(p));
      });
  Pattern turned = Op("Transpose", softmax).Where("a swap of the last axes", ExchangesLast);
  // The scores turned back before their Softmax, over the last axis then.
  Pattern late_mask = Any();
  Pattern back =
      Op("Transpose", OneOf({added, scaled})).Where("a swap of the last axes", ExchangesLast);
  Pattern late = Op("Add", back, late_mask);
  Pattern last = Op("Softmax", OneOf({late, back})).Where("over the last axis", [](const Value& p) {
    const auto axis = p.producer()->Attr<int64_t>("axis");
    return axis == -1 || axis + 1 == RankOf(p);
  });
  Pattern rows = Op("MatMul", OneOf({turned, last}), v), columns = Op("MatMul", vt, softmax);
  Pattern root = OneOf({rows, columns});
  return {
      .name = "attention-keys-first",
      .doc =
          "Transpose(Softmax(k * qt) over the keys) * v => Softmax(q * kt) * v, also of "
          "vt * Softmax(k * qt)",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int rank = RankOf(*m[scores]);
        if (rank < 3 || RankOf(*m[k]) != rank || RankOf(*m[qt]) != rank)
          return InvalidModel("needs queries and keys of one rank");
        const bool by_rows = m.Has(rows);
        if (RankOf(*m[by_rows ? v : vt]) != rank) return InvalidModel("needs values of that rank");
        INFER_ASSIGN(Value * q, WithLastTwoExchanged(m[qt], b));
        INFER_ASSIGN(Value * kt, WithLastTwoExchanged(m[k], b));
        INFER_ASSIGN(Value * s, b("MatMul", {q, kt}));
        if (m.Has(product) || m.Has(quotient)) {
          INFER_ASSIGN(s, b(m.Has(product) ? "Mul" : "Div", {s, m[factor]}));
        }
        if (m.Has(added)) {
          if (RankOf(*m[mask]) < 2 || RankOf(*m[mask]) > rank)
            return InvalidModel("needs a mask of two axes or more");
          INFER_ASSIGN(Value * turned_mask, WithLastTwoExchanged(m[mask], b));
          INFER_ASSIGN(s, b("Add", {s, turned_mask}));
        }
        if (m.Has(late)) {
          INFER_ASSIGN(s, b("Add", {s, m[late_mask]}));
        }
        INFER_ASSIGN(Value * p, b("Softmax", {s}, {{"axis", int64_t{-1}}}));
        if (by_rows) return b("MatMul", {p, m[v]});
        INFER_ASSIGN(Value * values, WithLastTwoExchanged(m[vt], b));
        INFER_ASSIGN(Value * y, b("MatMul", {p, values}));
        return WithLastTwoExchanged(y, b);
      },
      .fires_on = {R"(graph g(q: f32[N,2,S,4], k: f32[N,2,T,4], v: f32[N,2,T,3]) -> (y) {
             c = const f32[] {0.5}  qt = Transpose(q) {perm=[0,1,3,2]}  s = MatMul(k, qt)
             t = Mul(c, s)  p = Softmax(t) {axis=2}  pt = Transpose(p) {perm=[0,1,3,2]}
             y = MatMul(pt, v) })",
                   R"(graph g(q: f32[N,S,4], k: f32[N,T,4], v: f32[N,T,3], m: f32[N,T,1]) -> (y) {
             qt = Transpose(q) {perm=[0,2,1]}  s = MatMul(k, qt)  t = Add(m, s)
             p = Softmax(t) {axis=-2}  vt = Transpose(v) {perm=[0,2,1]}  yt = MatMul(vt, p)
             y = Transpose(yt) {perm=[0,2,1]} })",
                   R"(graph g(q: f32[N,2,S,4], k: f32[N,2,T,4], v: f32[N,2,T,3], m: f32[N,1,1,T],
                n: f32[T,1]) -> (y) { c = const f32[] {0.5}  qt = Transpose(q) {perm=[0,1,3,2]}
             s = MatMul(k, qt)  t = Mul(c, s)  u = Add(t, n)  w = Transpose(u) {perm=[0,1,3,2]}
             a = Add(w, m)  p = Softmax(a) {axis=3}  y = MatMul(p, v) })"},
      .silent_on = {{R"(graph g(q: f32[N,2,S,4], k: f32[N,2,T,4], v: f32[N,2,S,3]) -> (y) {
             qt = Transpose(q) {perm=[0,1,3,2]}  s = MatMul(k, qt)  p = Softmax(s) {axis=3}
             y = MatMul(p, v) })",
                     "not a Transpose"},
                    {R"(graph g(q: f32[N,2,S,4], k: f32[N,2,S,4], v: f32[N,2,S,3]) -> (y) {
             qt = Transpose(q) {perm=[0,1,3,2]}  s = MatMul(k, qt)  p = Softmax(s) {axis=3}
             pt = Transpose(p) {perm=[0,1,3,2]}  y = MatMul(pt, v) })",
                     "over the last axis but one"},
                    {R"(graph g(q: f32[2,2,5,4], k: f32[2,2,5,4], v: f32[2,2,5,3]) -> (y) {
             qt = Transpose(q) {perm=[0,1,3,2]}  s = MatMul(k, qt)  p = Softmax(s) {axis=2}
             pt = Transpose(p) {perm=[1,0,3,2]}  y = MatMul(pt, v) })",
                     "a swap of the last axes"},
                    {R"(graph g(q: f32[4,5], k: f32[2,2,5,4], v: f32[2,2,5,3]) -> (y) {
             s = MatMul(k, q)  p = Softmax(s) {axis=2}  pt = Transpose(p) {perm=[0,1,3,2]}
             y = MatMul(pt, v) })",
                     "of one rank"},
                    {R"(graph g(q: f32[2,4,5], k: f32[2,5,4], v: f32[2,5,3], m: f32[5]) -> (y) {
             s = MatMul(k, q)  a = Add(s, m)  p = Softmax(a) {axis=1}
             pt = Transpose(p) {perm=[0,2,1]}  y = MatMul(pt, v) })",
                     "a mask of two axes"}},
  };
}

}  // namespace infer
