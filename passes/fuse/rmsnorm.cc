/// x / sqrt(mean(x^2) + eps) in the ways that exporters write it, with casts around it (the
/// statistics of half-precision models are computed in single precision), and its scale.
#include "passes/fuse/formulas.h"
#include "passes/fuse/fusions.h"
#include "passes/fuse/row_norm.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

constexpr const char* kRmsBegin = R"(graph g(x: f32[N,2,8]) -> (y) { e = const f32[] {1e-6}
  a = const i64[1] {-1}  two = const f32[] {2}  one = const f32[] {1}  h = const f32[] {-0.5} )";
std::string RmsText(const char* rest) { return std::string(kRmsBegin) + rest + " }"; }

}  // namespace

Rule FuseRmsNorm() {
  Pattern x = Any(), epsilon = Scalar(), axes = Constant();
  Pattern mean = MeanOf(Square(MaybeWider(x)), axes);
  return {
      .name = "fuse-rmsnorm",
      .doc = "x / sqrt(mean(x^2) + eps), by Div, Reciprocal or Pow => RMSNormalization(x, 1)",
      .match = OverSqrt(MaybeWider(x), Op("Add", mean, epsilon)),
      .when = {{"a mean over the last axes",
                [=](const Match& m) { return FirstTrailingAxis(m.node(mean)).has_value(); }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int64_t axis = FirstTrailingAxis(m.node(mean)).value_or(0);
        return b(
            "RMSNormalization", {m[x], RowOnes(*m[x], axis, m.root()->dtype(), b)},
            {{"axis", axis - RankOf(*m[x])}, {"epsilon", static_cast<float>(m.scalar(epsilon))}});
      },
      .fires_on =
          {RmsText("q = Pow(x, two) v = ReduceMean(q, a) s = Add(v, e) r = Sqrt(s) y = Div(x, r)"),
           RmsText("q = Mul(x, x) v = ReduceMean(q, a) s = Add(e, v) r = Sqrt(s) y = Div(x, r)"),
           RmsText("q = Pow(x, two) v = ReduceMean(q, a) s = Add(v, e) r = Sqrt(s) i = Div(one, r) "
                   "y = Mul(x, i)"),
           RmsText("q = Mul(x, x) v = ReduceMean(q, a) s = Add(v, e) r = Sqrt(s) i = Div(one, r) "
                   "y = Mul(i, x)"),
           RmsText("q = Pow(x, two) v = ReduceMean(q, a) s = Add(v, e) r = Sqrt(s) "
                   "i = Reciprocal(r) y = Mul(x, i)"),
           RmsText("q = Mul(x, x) v = ReduceMean(q, a) s = Add(v, e) r = Sqrt(s) "
                   "i = Reciprocal(r) y = Mul(x, i)"),
           RmsText("q = Mul(x, x) v = ReduceMean(q, a) s = Add(v, e) i = Pow(s, h) y = Mul(x, i)"),
           R"(graph g(x: f32[2,H]) -> (y) { e = const f32[] {1e-6}  a = const i64[1] {1}
              q = Mul(x, x)  v = ReduceMean(q, a)  s = Add(v, e)  r = Sqrt(s)  y = Div(x, r) })",
           R"(graph g(x: f16[N,8]) -> (y) { e = const f32[] {1e-5}  a = const i64[1] {-1}
              w = Cast(x) {to=1}  q = Mul(w, w)  v = ReduceMean(q, a)  s = Add(v, e)
              r = Sqrt(s)  i = Reciprocal(r)  y = Mul(w, i) })"},
      .silent_on =
          {{RmsText("b = const i64[1] {1} q = Mul(x, x) v = ReduceMean(q, b) s = Add(v, e) "
                    "r = Sqrt(s) y = Div(x, r)"),
            "a mean over the last axes"},
           {RmsText("q = Mul(x, x) v = ReduceMean(q, a) s = Add(v, e) r = Sqrt(s) y = Div(r, x)"),
            "not a"},
           {RmsText("q = Mul(x, x) v = ReduceSum(q, a) s = Add(v, e) r = Sqrt(s) y = Div(x, r)"),
            "not a ReduceMean"},
           {R"(graph g(x: f32[N,8], z: f32[N,8]) -> (y) { e = const f32[] {1e-6}
              a = const i64[1] {-1} q = Mul(z, z) v = ReduceMean(q, a) s = Add(v, e)
              r = Sqrt(s) y = Div(x, r) })",
            "is not the value bound before"}},
  };
}

Rule FuseRmsNormScale() {
  Pattern x = Any(), ones = Number(1), gamma = Any();
  Pattern norm = Op("RMSNormalization", x, ones);
  return {
      .name = "fuse-rmsnorm-scale",
      .doc = "RMSNormalization(x, 1) * g => RMSNormalization(x, g)",
      .match = Op("Mul", norm, gamma),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        INFER_ASSIGN(Value * g,
                     RowOperand(m[gamma], *m[norm], m.node(norm).Attr<int64_t>("axis"), b));
        return b("RMSNormalization", {m[x], g}, m.node(norm).attrs());
      },
      .fires_on = {R"(graph g(x: f32[N,2,3]) -> (y) { o = const f32[3] {1,1,1}
                     g = const f32[1,1,3] ~1  t = RMSNormalization(x, o)  y = Mul(g, t) })",
                   R"(graph g(x: f32[N,?]) -> (y) { o = const f32[3] {1,1,1}
                     g = const f32[3] ~1  t = RMSNormalization(x, o)  y = Mul(g, t) })"},
      .silent_on = {{R"(graph g(x: f32[2,3], g: f32[2,3]) -> (y) { o = const f32[3] {1,1,1}
                       t = RMSNormalization(x, o)  y = Mul(t, g) })",
                     "one number per normalized element"},
                    {R"(graph g(x: f32[N,?]) -> (y) { o = const f32[1] {1}
                       g = const f32[3] ~1  t = RMSNormalization(x, o)  y = Mul(g, t) })",
                     "one number per normalized element"}},
  };
}

Rule FuseNormCasts() {
  Pattern x = Any(), ones = Number(1);
  // The cast is tried first: a wide `x` would fit, too, and stay wide.
  Pattern in = OneOf({Op("Cast", x).Where("a Cast to a wider float type", Widens), x});
  Pattern norm = Op("LayerNormalization|RMSNormalization", in, ones).With("stash_type", int64_t{1});
  Pattern root = Op("Cast", norm).Where("a Cast to a narrower float type", Narrows);
  return {
      .name = "fuse-norm-casts",
      .doc =
          "Cast(Layer|RMSNormalization(Cast(x), 1)) back => Layer|RMSNormalization(x, 1), which "
          "computes in single precision by itself",
      .match = root,
      .when = {{"single precision between the casts",
                [=](const Match& m) { return m[norm]->dtype() == DType::kF32; }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(norm);
        return b(n.op(), {m[x], RowOnes(*m[x], n.Attr<int64_t>("axis"), m.root()->dtype(), b)},
                 n.attrs());
      },
      .fires_on = {R"(graph g(x: f16[N,3]) -> (y) { o = const f32[3] {1,1,1}
                     w = Cast(x) {to=1}  t = RMSNormalization(w, o)  y = Cast(t) {to=10} })",
                   R"(graph g(x: f16[N,3]) -> (y) { o = const f32[3] {1,1,1}
                     t = RMSNormalization(x, o)  y = Cast(t) {to=10} })",
                   R"(graph g(x: f16[N,3]) -> (y) { o = const f32[3] {1,1,1}
                     w = Cast(x) {to=1}  t = LayerNormalization(w, o)  y = Cast(t) {to=10} })"},
      .silent_on = {{R"(graph g(x: f16[N,3]) -> (y) { o = const f64[3] {1,1,1}
                       w = Cast(x) {to=11}  t = LayerNormalization(w, o)  y = Cast(t) {to=10} })",
                     "single precision between the casts"},
                    {R"(graph g(x: f16[N,3]) -> (y) { o = const f32[3] {1,1,1}
                       w = Cast(x) {to=1}  t = LayerNormalization(w, o)  y = Cast(t) {to=11} })",
                     "a Cast to a narrower float type"}},
  };
}

}  // namespace infer
