/// Layer normalization as TensorFlow and JAX write it: the scale is multiplied into 1/deviation,
/// and the mean may be taken off at the end: x*k + (b - mean*k), k = g/sqrt(var + eps).
#include "passes/fuse/formulas.h"
#include "passes/fuse/fusions.h"
#include "passes/fuse/row_norm.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

constexpr const char* kScaledNormBegin = R"(graph g(x: f32[N,2,8]) -> (y) { e = const f32[] {1e-3}
  a = const i64[1] {2}  g = const f32[8] ~1  b = const f32[8] ~2  zero = const f32[] {0}
  mu = ReduceMean(x, a) )";
std::string ScaledNormText(const char* rest) { return std::string(kScaledNormBegin) + rest + " }"; }

}  // namespace

Rule FuseScaledLayerNorm() {
  Pattern x = Any(), epsilon = Scalar(), axes = Constant(), axes2 = Constant();
  Pattern gamma = Any(), beta = Any();
  Pattern mu = RowMeanOf(x, axes), d = Op("Sub", x, mu);
  Pattern of_d = RowMeanOf(Square(d), axes2), of_x = RowMeanOf(Square(x), axes2);
  Pattern difference = Op("Sub", of_x, Square(mu));  // E[x^2] - E[x]^2
  Pattern variance =
      OneOf({of_d, difference, Op("Relu", difference), Op("Max", difference, Number(0))});
  Pattern inverse = InverseSqrt(Op("Add", variance, epsilon));
  Pattern scaled = Op("Mul", inverse, gamma), k = OneOf({scaled, inverse});
  Pattern shifted = Op("Sub", beta, Op("Mul", mu, k));
  Pattern negated = Op("Add", Op("Mul", Op("Neg", mu), k), beta);  // Keras
  Pattern late = Op("Add", Op("Mul", x, k), OneOf({shifted, negated}));
  return {
      .name = "fuse-scaled-layernorm",
      .doc =
          "x*k + (b - mean*k) or (x - mean) * k, k = g / sqrt(var + eps) => "
          "LayerNormalization(x, g, b)",
      .match = OneOf({late, Op("Mul", d, scaled)}),
      .when = {{"means over the same last axes",
                [=](const Match& m) {
                  const auto first = FirstTrailingAxis(m.node(mu));
                  const Node& second = m.node(m.Has(of_d) ? of_d : of_x);
                  return first && first == FirstTrailingAxis(second);
                }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int64_t axis = FirstTrailingAxis(m.node(mu)).value_or(0) - RankOf(*m[x]);
        Value *scale = nullptr, *shift = nullptr;
        if (m.Has(scaled)) {
          INFER_ASSIGN(scale, RowOperand(m[gamma], *m[x], axis, b));
        } else {
          scale = RowOnes(*m[x], axis, m[x]->dtype(), b);
        }
        if (m.Has(late)) {
          INFER_ASSIGN(shift, RowOperand(m[beta], *m[x], axis, b));
        }
        return b("LayerNormalization", {m[x], scale, shift},
                 {{"axis", axis}, {"epsilon", static_cast<float>(m.scalar(epsilon))}});
      },
      .fires_on = {ScaledNormText(R"(d = Sub(x, mu) q = Mul(d, d) v = ReduceMean(q, a) s = Add(v, e)
                     r = Sqrt(s) i = Reciprocal(r) k = Mul(i, g) t = Mul(x, k) m = Mul(mu, k)
                     c = Sub(b, m) y = Add(t, c))"),
                   ScaledNormText(R"(d = Sub(x, mu) q = Mul(d, d) v = ReduceMean(q, a) s = Add(v, e)
                     r = Sqrt(s) k = Reciprocal(r) t = Mul(x, k) m = Mul(mu, k)
                     c = Sub(b, m) y = Add(t, c))"),
                   R"(graph g(x: f32[N,2,8]) -> (y) { e = const f32[] {1e-3}
                     g = const f32[8] ~1  b = const f32[1,1,8] ~2  mu = GlobalAveragePool(x)
                     h = Neg(mu)  d = Sub(x, mu)  q = Mul(d, d)  v = GlobalAveragePool(q)
                     s = Add(v, e)  r = Sqrt(s)  i = Reciprocal(r)  k = Mul(i, g)  t = Mul(x, k)
                     m = Mul(h, k)  c = Add(m, b)  y = Add(t, c) })",
                   ScaledNormText(
                       R"(p = Mul(x, x) w = ReduceMean(p, a) n = Mul(mu, mu) f = Sub(w, n)
                     v = Max(f, zero) s = Add(v, e) r = Sqrt(s) i = Reciprocal(r) k = Mul(i, g)
                     d = Sub(x, mu) y = Mul(d, k))")},
      .silent_on = {{ScaledNormText(R"(b1 = const i64[1] {1} d = Sub(x, mu) q = Mul(d, d)
                       v = ReduceMean(q, b1) s = Add(v, e) r = Sqrt(s) i = Reciprocal(r)
                       k = Mul(i, g) y = Mul(d, k))"),
                     "means over the same last axes"},
                    {R"(graph g(x: f32[N,2,8,3]) -> (y) { e = const f32[] {1e-3}
                       g = const f32[3] ~1  mu = GlobalAveragePool(x)  d = Sub(x, mu)
                       q = Mul(d, d)  v = GlobalAveragePool(q)  s = Add(v, e)  r = Sqrt(s)
                       i = Reciprocal(r)  k = Mul(i, g)  y = Mul(d, k) })",
                     "of three axes"},
                    {ScaledNormText(R"(w = const f32[2,8] ~3 d = Sub(x, mu) q = Mul(d, d)
                       v = ReduceMean(q, a) s = Add(v, e) r = Sqrt(s) i = Reciprocal(r)
                       k = Mul(i, w) y = Mul(d, k))"),
                     "one number per normalized element"}},
  };
}

}  // namespace infer
