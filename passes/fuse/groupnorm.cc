/// Normalization of groups of channels, and of single channels, written out.
#include "passes/fuse/formulas.h"
#include "passes/fuse/fusions.h"
#include "passes/fuse/row_norm.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

constexpr const char* kGroups = R"(graph g(x: f32[N,6,2,2]) -> (y) { k = const i64[3] {0,3,-1}
  wrong = const i64[3] {-1,6,4}  back = const i64[4] {-1,6,2,2}  s = const f32[3] ~1
  b = const f32[3] ~2  r = Reshape(x, k) )";
std::string Groups(const char* rest) { return std::string(kGroups) + rest + " }"; }

}  // namespace

Rule FuseGroupNorm() {
  Pattern x = Any(), scale = Constant(), bias = Constant(), ones = Number(1);
  Pattern apart = Op("Reshape", x).MoreInputs();
  Pattern instance = Op("InstanceNormalization", apart, scale, bias);
  Pattern rows = Op("LayerNormalization", apart, ones);
  Pattern root = Op("Reshape", OneOf({instance, rows})).MoreInputs();
  return {
      .name = "fuse-groupnorm",
      .doc =
          "Reshape(InstanceNormalization|LayerNormalization(Reshape(x, [N, groups, -1]))) => "
          "GroupNormalization(x)",
      .match = root,
      .when = {{"samples and groups of whole channels in front, and the shape back",
                [=](const Match& m) {
                  const Value &whole = *m[x], &parts = *m[apart];
                  const auto channels = StaticDim(whole, 1), groups = StaticDim(parts, 1);
                  if (RankOf(whole) < 3 || RankOf(parts) < 3 || !channels || !groups) return false;
                  if (*groups < 1 || *channels % *groups != 0) return false;
                  if (m.Has(rows) && m.node(rows).Attr<int64_t>("axis") != 2 - RankOf(parts))
                    return false;
                  return whole.shape()[0].KnownEqual(parts.shape()[0]) &&
                         SameKnownType(whole, *m[root]);
                }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int64_t channels = StaticDim(*m[x], 1).value_or(1),
                      groups = StaticDim(*m[apart], 1).value_or(1);
        std::vector<double> s(static_cast<size_t>(channels), 1.0), c(s.size(), 0.0);
        if (m.Has(instance))
          for (int64_t i = 0; i < channels; ++i) {
            s[static_cast<size_t>(i)] = m.tensor(scale).At(i / (channels / groups));
            c[static_cast<size_t>(i)] = m.tensor(bias).At(i / (channels / groups));
          }
        const Node& norm = m.node(m.Has(instance) ? instance : rows);
        const DType type = m[x]->dtype();
        return b("GroupNormalization",
                 {m[x], b.Const(FromDoubles(type, {channels}, s)),
                  b.Const(FromDoubles(type, {channels}, c))},
                 {{"num_groups", groups}, {"epsilon", norm.Attr<float>("epsilon")}});
      },
      .fires_on = {Groups("n = InstanceNormalization(r, s, b) y = Reshape(n, back)"),
                   Groups("n = InstanceNormalization(r, s, b) h = Shape(x) y = Reshape(n, h)"),
                   Groups("o = const f32[8] {1,1,1,1,1,1,1,1} n = LayerNormalization(r, o) "
                          "y = Reshape(n, back)")},
      .silent_on =
          {{R"(graph g(x: f32[1,6,2,2]) -> (y) { k = const i64[3] {1,4,6}  s = const f32[4] ~1
              b = const f32[4] ~2  back = const i64[4] {1,6,2,2}  r = Reshape(x, k)
              n = InstanceNormalization(r, s, b)  y = Reshape(n, back) })",
            "samples and groups of whole channels"},
           {Groups("n = InstanceNormalization(r, s, b) f = const i64[2] {-1,24} "
                   "y = Reshape(n, f)"),
            "and the shape back"},
           {R"(graph g(x: f32[2,6,2,2]) -> (y) { k = const i64[3] {1,6,8}  s = const f32[6] ~1
              b = const f32[6] ~2  back = const i64[4] {2,6,2,2}  r = Reshape(x, k)
              n = InstanceNormalization(r, s, b)  y = Reshape(n, back) })",
            "samples and groups of whole channels in front, and the shape back"}},
  };
}

Rule FuseInstanceNorm() {
  Pattern x = Any(), ones = Number(1), gamma = Constant();
  Pattern norm = Op("LayerNormalization", x, ones)
                     .Where("over all spatial axes, two at least", [](const Value& v) {
                       const int rank = RankOf(v);
                       const auto axis = v.producer()->Attr<int64_t>("axis");
                       return rank >= 4 && (axis < 0 ? axis + rank : axis) == 2 && StaticDim(v, 1);
                     });
  const char* begin = "graph g(x: f32[N,3,2,2]) -> (y) { o = const f32[2,2] {1,1,1,1} ";
  const auto text = [=](const char* rest) { return std::string(begin) + rest + " }"; };
  return {
      .name = "fuse-instancenorm",
      .doc =
          "LayerNormalization of all spatial axes * a factor per channel => "
          "InstanceNormalization(x, g, 0)",
      .match = Op("Mul", norm, gamma),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int64_t channels = StaticDim(*m[x], 1).value_or(1);
        const auto factors = PerIndex(m.tensor(gamma), RankOf(*m[x]), 1, channels);
        if (!factors || m.tensor(gamma).num_elements() == 1)
          return InvalidModel("needs a factor per channel");
        const DType type = m[x]->dtype();
        const std::vector<double> zeros(factors->size(), 0.0);
        return b("InstanceNormalization",
                 {m[x], b.Const(FromDoubles(type, {channels}, *factors)),
                  b.Const(FromDoubles(type, {channels}, zeros))},
                 {{"epsilon", m.node(norm).Attr<float>("epsilon")}});
      },
      .fires_on = {text("g = const f32[3,1,1] ~1 n = LayerNormalization(x, o) {axis=-2} "
                        "y = Mul(g, n)")},
      .silent_on = {{text("g = const f32[2,2] ~1 n = LayerNormalization(x, o) {axis=-2} "
                          "y = Mul(g, n)"),
                     "a factor per channel"},
                    {text("p = const f32[2] {1,1} g = const f32[3,1,1] ~1 "
                          "n = LayerNormalization(x, p) y = Mul(n, g)"),
                     "is not over all spatial axes, two at least"}},
  };
}

}  // namespace infer
