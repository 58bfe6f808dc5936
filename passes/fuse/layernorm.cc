/// Layer normalization as exporters write it: y = (x - E[x]) / sqrt(E[(x - E[x])^2] + eps), in
/// three steps: the core, its scale, its bias.
#include "passes/fuse/formulas.h"
#include "passes/fuse/fusions.h"
#include "passes/fuse/row_norm.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

constexpr const char* kCore = R"(graph g(x: f32[N,2,8]) -> (y) { e = const f32[] {1e-5}
  a = const i64[1] {-1}  p = const f32[] {2}  mu = ReduceMean(x, a)  d = Sub(x, mu) )";
std::string Core(const char* rest) { return std::string(kCore) + rest + " }"; }

/// perm that moves `axis` to the end, and its inverse.
std::pair<std::vector<int64_t>, std::vector<int64_t>> ToTheEnd(int64_t axis, int64_t rank) {
  std::vector<int64_t> there, back(static_cast<size_t>(rank));
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) there.push_back(i);
  there.push_back(axis);
  for (size_t i = 0; i < there.size(); ++i)
    back[static_cast<size_t>(there[i])] = static_cast<int64_t>(i);
  return {there, back};
}

}  // namespace

Rule FuseLayerNorm() {
  Pattern x = Any(), epsilon = Scalar(), axes = Constant(), axes2 = Constant();
  Pattern mu = RowMeanOf(x, axes), d = Op("Sub", x, mu);
  Pattern variance = RowMeanOf(Square(MaybeWider(d)), axes2);
  Pattern sum = Op("Add", variance, epsilon);  // an epsilon of 0 may have been left out
  Pattern root = OverSqrt(MaybeWider(d), OneOf({sum, variance}));
  return {
      .name = "fuse-layernorm",
      .doc =
          "(x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) => LayerNormalization(x, 1), "
          "between transpositions where the means go over an inner axis",
      .match = root,
      .when = {{"means over the same last axes, or over one axis",
                [=](const Match& m) {
                  const Node &first = m.node(mu), &second = m.node(variance);
                  const auto last = FirstTrailingAxis(first);
                  if (last) return last == FirstTrailingAxis(second);
                  const auto inner = SingleInnerAxis(first);
                  return inner && inner == SingleInnerAxis(second);
                }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int rank = RankOf(*m[x]);
        const DType type = m.root()->dtype();
        Value* in = m[x];
        if (in->dtype() != type) {
          INFER_ASSIGN(in, b("Cast", {in}, {{"to", static_cast<int64_t>(type)}}));
        }
        const auto epsilon_attr = m.Has(sum) ? static_cast<float>(m.scalar(epsilon)) : 0.0f;
        const auto inner = SingleInnerAxis(m.node(mu));
        if (!inner) {
          const int64_t axis = FirstTrailingAxis(m.node(mu)).value_or(rank - 1);
          return b("LayerNormalization", {in, RowOnes(*m[x], axis, type, b)},
                   {{"axis", axis - rank}, {"epsilon", epsilon_attr}});
        }
        const auto [there, back] = ToTheEnd(*inner, rank);
        INFER_ASSIGN(in, b("Transpose", {in}, {{"perm", there}}));
        INFER_ASSIGN(Value * y, b("LayerNormalization", {in, RowOnes(*in, -1, type, b)},
                                  {{"axis", int64_t{-1}}, {"epsilon", epsilon_attr}}));
        return b("Transpose", {y}, {{"perm", back}});
      },
      .fires_on =
          {Core("q = Pow(d, p)  v = ReduceMean(q, a)  s = Add(v, e) r = Sqrt(s)  y = Div(d, r)"),
           Core("q = Mul(d, d)  v = ReduceMean(q, a)  s = Add(e, v) r = Sqrt(s)"
                "  i = Reciprocal(r)  y = Mul(i, d)"),
           Core("q = Mul(d, d)  v = ReduceMean(q, a)  s = Add(e, v) h = const f32[] {-0.5}"
                "  i = Pow(s, h)  y = Mul(d, i)"),
           Core("q = Mul(d, d)  v = ReduceMean(q, a)  r = Sqrt(v)  y = Div(d, r)"),
           // Half precision, the statistics in single.
           R"(graph g(x: f16[N,8]) -> (y) { e = const f32[] {1e-5}  a = const i64[1] {-1}
              mu = ReduceMean(x, a)  d = Sub(x, mu)  w = Cast(d) {to=1}  q = Mul(w, w)
              v = ReduceMean(q, a)  s = Add(v, e)  r = Sqrt(s)  y = Div(w, r) })",
           R"(graph g(x: f32[2,H]) -> (y) { e = const f32[] {1e-5}  a = const i64[1] {-1}
              mu = ReduceMean(x, a)  d = Sub(x, mu)  q = Mul(d, d)  v = ReduceMean(q, a)
              s = Add(v, e)  r = Sqrt(s)  y = Div(d, r) })",
           R"(graph g(x: f32[N,8,2,3]) -> (y) { e = const f32[] {1e-5}  a = const i64[1] {1}
              mu = ReduceMean(x, a)  d = Sub(x, mu)  q = Mul(d, d)  v = ReduceMean(q, a)
              s = Add(v, e)  r = Sqrt(s)  y = Div(d, r) })"},
      .silent_on = {{Core("b = const i64[1] {1}  q = Mul(d, d)  v = ReduceMean(q, b) "
                          "s = Add(v, e)  r = Sqrt(s)  y = Div(d, r)"),
                     "means over the same last axes, or over one axis"},
                    {Core("c = const f32[] {3}  q = Pow(d, c)  v = ReduceMean(q, a) "
                          "s = Add(v, e)  r = Sqrt(s)  y = Div(d, r)"),
                     "'c' is not = 2"},
                    {Core("q = Mul(d, d)  v = ReduceMean(q, a)  s = Add(v, e)  r = Sqrt(s) "
                          "y = Div(r, d)"),
                     "not a Sub"}},
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
        INFER_ASSIGN(Value * g,
                     RowOperand(m[gamma], *m[norm], m.node(norm).Attr<int64_t>("axis"), b));
        return b("LayerNormalization", {m[x], g}, m.node(norm).attrs());
      },
      .fires_on = {R"(graph g(x: f32[N,2,3]) -> (y) { o = const f32[3] {1,1,1}
                     g = const f32[1,1,3] ~1  t = LayerNormalization(x, o)  y = Mul(g, t) })",
                   R"(graph g(x: f32[N,2,3]) -> (y) { o = const f32[3] {1,1,1}
                     g = const f32[] {2}  t = LayerNormalization(x, o)  y = Mul(t, g) })",
                   R"(graph g(x: f32[N,?]) -> (y) { o = const f32[3] {1,1,1}
                     g = const f32[3] ~1  t = LayerNormalization(x, o)  y = Mul(t, g) })"},
      .silent_on = {{R"(graph g(x: f32[2,3], g: f32[2,3]) -> (y) { o = const f32[3] {1,1,1}
                       t = LayerNormalization(x, o)  y = Mul(t, g) })",
                     "one number per normalized element"},
                    {R"(graph g(x: f32[N,?]) -> (y) { o = const f32[1] {1}
                       g = const f32[3] ~1  t = LayerNormalization(x, o)  y = Mul(g, t) })",
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
        INFER_ASSIGN(Value * bias,
                     RowOperand(m[beta], *m[norm], m.node(norm).Attr<int64_t>("axis"), b));
        return b("LayerNormalization", {m[x], m[scale], bias}, m.node(norm).attrs());
      },
      .fires_on = {R"(graph g(x: f32[N,2,3], b: f32[3]) -> (y) { s = const f32[3] ~1
                     t = LayerNormalization(x, s)  y = Add(b, t) })",
                   R"(graph g(x: f32[N,?]) -> (y) { s = const f32[3] ~1  b = const f32[1,3] ~2
                     t = LayerNormalization(x, s)  y = Add(b, t) })"},
      .silent_on = {{R"(graph g(x: f32[2,3], r: f32[2,3]) -> (y) { s = const f32[3] ~1
                       t = LayerNormalization(x, s)  y = Add(t, r) })",
                     "one number per normalized element"},
                    {R"(graph g(x: f32[N,?]) -> (y) { s = const f32[1] {2}
                       b = const f32[3] ~1  t = LayerNormalization(x, s)  y = Add(t, b) })",
                     "one number per normalized element"}},
  };
}

namespace {

/// The rows that a transposition puts along another axis: where, and how long they are.
struct MovedRows {
  int axis = -1;
  int64_t extent = 0;
};
Result<MovedRows> RowsAfter(const Node& transpose) {
  const std::vector<int64_t> perm = PermOf(transpose);
  const int rank = static_cast<int>(perm.size());
  for (int i = 0; i < rank; ++i)
    if (perm[static_cast<size_t>(i)] == rank - 1)
      if (const auto extent = StaticDim(*transpose.input(0), -1)) return MovedRows{i, *extent};
  return InvalidModel("needs a known extent of the normalized axis");
}

/// A constant that varies along the moved rows alone, as one number per normalized element.
Result<Value*> AlongMovedRows(const Match& m, const Pattern& c, const Node& transpose,
                              PatchBuilder& b) {
  INFER_ASSIGN(const MovedRows rows, RowsAfter(transpose));
  const auto values = PerIndex(m.tensor(c), RankOf(*transpose.output()), rows.axis, rows.extent);
  if (!values) return InvalidModel("needs one number per normalized element");
  return b.Const(FromDoubles(m[c]->dtype(), {rows.extent}, *values));
}

constexpr const char* kChannels = R"(graph g(x: f32[N,2,3,8]) -> (y) { o = const f32[8] {1,1,1,1,
  1,1,1,1}  c = const f32[8,1,1] ~1  wrong = const f32[3] ~2 )";
std::string Channels(const char* rest) { return std::string(kChannels) + rest + " }"; }

}  // namespace

Rule FuseLayerNormChannelScale() {
  Pattern x = Any(), ones = Number(1), gamma = Constant();
  Pattern norm = Op("LayerNormalization", x, ones).With("axis", int64_t{-1});
  Pattern moved = Op("Transpose", norm);
  return {
      .name = "fuse-layernorm-channel-scale",
      .doc = "Transpose(LayerNormalization(x, 1)) * g => Transpose(LayerNormalization(x, g))",
      .match = Op("Mul", moved, gamma),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        INFER_ASSIGN(Value * g, AlongMovedRows(m, gamma, m.node(moved), b));
        INFER_ASSIGN(Value * y, b("LayerNormalization", {m[x], g}, m.node(norm).attrs()));
        return b("Transpose", {y}, m.node(moved).attrs());
      },
      .fires_on = {Channels("n = LayerNormalization(x, o) t = Transpose(n) {perm=[0,3,1,2]} "
                            "y = Mul(c, t)")},
      .silent_on = {{Channels("n = LayerNormalization(x, o) t = Transpose(n) {perm=[0,3,1,2]} "
                              "y = Mul(t, wrong)"),
                     "one number per normalized element"}},
  };
}

Rule FuseLayerNormChannelBias() {
  Pattern x = Any(), scale = Any(), beta = Constant();
  Pattern norm = Op("LayerNormalization", x, scale).With("axis", int64_t{-1});
  Pattern moved = Op("Transpose", norm);
  return {
      .name = "fuse-layernorm-channel-bias",
      .doc = "Transpose(LayerNormalization(x, g)) + b => Transpose(LayerNormalization(x, g, b))",
      .match = Op("Add", moved, beta),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        INFER_ASSIGN(Value * c, AlongMovedRows(m, beta, m.node(moved), b));
        INFER_ASSIGN(Value * y, b("LayerNormalization", {m[x], m[scale], c}, m.node(norm).attrs()));
        return b("Transpose", {y}, m.node(moved).attrs());
      },
      .fires_on = {Channels("n = LayerNormalization(x, o) t = Transpose(n) {perm=[0,3,1,2]} "
                            "y = Add(c, t)")},
      .silent_on = {{Channels("n = LayerNormalization(x, o) t = Transpose(n) {perm=[0,3,1,2]} "
                              "y = Add(t, wrong)"),
                     "one number per normalized element"}},
  };
}

}  // namespace infer
