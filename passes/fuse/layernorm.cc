/// Layer normalization as exporters write it: y = (x - E[x]) / sqrt(E[(x - E[x])^2] + eps), in
/// three steps: the core, its scale, its bias.
#include <algorithm>

#include "passes/fuse/fusions.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// First of the trailing axes that a ReduceMean goes over; nullopt for other axes.
std::optional<int64_t> FirstTrailingAxis(const Node& reduce) {
  const int rank = RankOf(*reduce.input(0));
  const Value* axes = reduce.input(1);
  if (rank < 1 || !axes || !axes->is_constant()) return std::nullopt;
  std::vector<int64_t> sorted = axes->constant()->ToInts();
  for (int64_t& a : sorted) a = a < 0 ? a + rank : a;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty()) return std::nullopt;
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != rank - static_cast<int64_t>(sorted.size() - i)) return std::nullopt;
  return sorted[0];
}

/// `v` as an operand of the shape `wanted`: as it is, or a constant without leading ones.
Result<Value*> Fitted(Value* v, const Dims& wanted, PatchBuilder& b) {
  if (RankOf(*v) >= 0 && v->shape().is_static()) {
    Dims dims = v->shape().static_dims();
    if (dims == wanted) return v;
    while (dims.size() > wanted.size() && dims[0] == 1) dims.erase(dims.begin());
    if (dims == wanted && v->is_constant()) return b.Const(v->constant()->Reshaped(wanted));
  }
  return InvalidModel("needs one number per normalized element");
}

constexpr const char* kCore = R"(graph g(x: f32[N,2,8]) -> (y) { e = const f32[] {1e-5}
  a = const i64[1] {-1}  p = const f32[] {2}  mu = ReduceMean(x, a)  d = Sub(x, mu) )";

}  // namespace

Rule FuseLayerNorm() {
  Pattern x = Any(), epsilon = Scalar(), axes = Constant(), axes2 = Constant();
  const auto mean = [](const Pattern& v, const Pattern& over) {
    return Op("ReduceMean", v, over).With("keepdims", int64_t{1});
  };
  Pattern mu = mean(x, axes), d = Op("Sub", x, mu);
  Pattern variance = mean(OneOf({Op("Pow", d, Number(2)), Op("Mul", d, d)}), axes2);
  Pattern shifted = Op("Add", variance, epsilon);
  Pattern deviation = OneOf({Op("Sqrt", shifted), Op("Pow", shifted, Number(0.5))});
  Pattern inverse = OneOf({Op("Reciprocal", deviation), Op("Div", Number(1), deviation),
                           Op("Pow", shifted, Number(-0.5))});
  Pattern root = OneOf({Op("Div", d, deviation), Op("Mul", d, inverse)});
  return {
      .name = "fuse-layernorm",
      .doc = "(x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) => LayerNormalization(x, 1)",
      .match = root,
      .when = {{"means over the same last axes",
                [=](const Match& m) {
                  const auto first = FirstTrailingAxis(m.node(mu));
                  return first && first == FirstTrailingAxis(m.node(variance));
                }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int rank = RankOf(*m[x]);
        const int64_t axis = FirstTrailingAxis(m.node(mu)).value_or(rank - 1);
        Dims dims;
        for (int i = static_cast<int>(axis); i < rank; ++i) {
          const auto extent = StaticDim(*m[x], i);
          if (!extent) return InvalidModel("needs a known extent of the normalized axes");
          dims.push_back(*extent);
        }
        const std::vector<double> ones(static_cast<size_t>(NumElements(dims)), 1.0);
        return b("LayerNormalization", {m[x], b.Const(FromDoubles(m[x]->dtype(), dims, ones))},
                 {{"axis", axis - rank}, {"epsilon", static_cast<float>(m.scalar(epsilon))}});
      },
      .fires_on = {std::string(kCore) + R"(q = Pow(d, p)  v = ReduceMean(q, a)  s = Add(v, e)
                                   r = Sqrt(s)  y = Div(d, r) })",
                   std::string(kCore) + R"(q = Mul(d, d)  v = ReduceMean(q, a)  s = Add(e, v)
                                   r = Sqrt(s)  i = Reciprocal(r)  y = Mul(i, d) })",
                   std::string(kCore) + R"(q = Mul(d, d)  v = ReduceMean(q, a)  s = Add(e, v)
                                   h = const f32[] {-0.5}  i = Pow(s, h)  y = Mul(d, i) })"},
      .silent_on =
          {{std::string(kCore) + R"(b = const i64[1] {1}  q = Mul(d, d)  v = ReduceMean(q, b)
                                    s = Add(v, e)  r = Sqrt(s)  y = Div(d, r) })",
            "means over the same last axes"},
           {R"(graph g(x: f32[2,8,H]) -> (y) { e = const f32[] {1e-5}  a = const i64[1] {-1}
              mu = ReduceMean(x, a)  d = Sub(x, mu)  q = Mul(d, d)  v = ReduceMean(q, a)
              s = Add(v, e)  r = Sqrt(s)  y = Div(d, r) })",
            "a known extent"},
           {std::string(kCore) + R"(c = const f32[] {3}  q = Pow(d, c)  v = ReduceMean(q, a)
                                    s = Add(v, e)  r = Sqrt(s)  y = Div(d, r) })",
            "'c' is not = 2"}},
  };
}

Rule FuseLayerNormScale() {
  Pattern x = Any(), ones = Number(1), gamma = Any();
  Pattern norm = Op("LayerNormalization", x, ones);
  return {
      .name = "fuse-layernorm-scale",
      .doc = "LayerNormalization(x, 1) * g => LayerNormalization(x, g)",
      .match = Op("Mul", norm, gamma),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        INFER_ASSIGN(Value * g, Fitted(m[gamma], m.tensor(ones).dims(), b));
        return b("LayerNormalization", {m[x], g}, m.node(norm).attrs());
      },
      .fires_on = {R"(graph g(x: f32[N,2,3]) -> (y) { o = const f32[3] {1,1,1}
                     g = const f32[1,1,3] ~1  t = LayerNormalization(x, o)  y = Mul(g, t) })"},
      .silent_on = {{R"(graph g(x: f32[2,3], g: f32[2,3]) -> (y) { o = const f32[3] {1,1,1}
                       t = LayerNormalization(x, o)  y = Mul(t, g) })",
                     "one number per normalized element"}},
  };
}

Rule FuseLayerNormBias() {
  Pattern x = Any(), scale = Any(), beta = Any();
  Pattern norm = Op("LayerNormalization", x, scale);
  return {
      .name = "fuse-layernorm-bias",
      .doc = "LayerNormalization(x, g) + b => LayerNormalization(x, g, b)",
      .match = Op("Add", norm, beta),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        if (!m[scale]->type().is_tensor() || !m[scale]->shape().is_static())
          return InvalidModel("needs a scale of known shape");
        INFER_ASSIGN(Value * bias, Fitted(m[beta], m[scale]->shape().static_dims(), b));
        return b("LayerNormalization", {m[x], m[scale], bias}, m.node(norm).attrs());
      },
      .fires_on = {R"(graph g(x: f32[N,2,3], b: f32[3]) -> (y) { s = const f32[3] ~1
                     t = LayerNormalization(x, s)  y = Add(b, t) })"},
      .silent_on = {{R"(graph g(x: f32[2,3], r: f32[2,3]) -> (y) { s = const f32[3] ~1
                       t = LayerNormalization(x, s)  y = Add(t, r) })",
                     "one number per normalized element"}},
  };
}

}  // namespace infer
