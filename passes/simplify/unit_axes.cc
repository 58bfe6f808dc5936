/// Axes of one element around transpositions: an Einsum that tf2onnx took apart puts them between
/// the axes that it multiplies and those that it keeps.
#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

constexpr std::string_view kUnitViews = "Reshape|Flatten|Squeeze|Unsqueeze";

int Units(const Shape& s) {
  int units = 0;
  if (s.has_rank())
    for (const Dim& d : s.dims()) units += d.KnownEqual(1);
  return units;
}

/// x as a value of the shape `to`, x itself where it has it.
Result<Value*> Viewed(Value* x, const Shape& from, const Shape& to, PatchBuilder& b) {
  if (from.has_rank() && to.has_rank() && KnownEqual(from.dims(), to.dims())) return x;
  const auto target = ReshapeTarget(from, to);
  if (!target) return InvalidModel("needs a shape that a constant can say");
  return b("Reshape", {x, b.Ints(*target)});
}

}  // namespace

Rule TransposeWithoutUnits() {
  Pattern x = Any(), view = Op(kUnitViews, x).MoreInputs(), turned = Op("Transpose", view);
  Pattern root = Op(kUnitViews, turned).MoreInputs();
  return {
      .name = "transpose-without-units",
      .doc = "Reshape(Transpose(Reshape(x))) with axes of one element between => without them",
      .match = root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Shape& wide = m[view]->shape();
        if (!wide.has_rank()) return InvalidModel("needs a known rank");
        // One that stays in the result says something, such as one channel of a DepthToSpace; so
        // does a batch of one.
        const auto stay = [] { return InvalidModel("needs axes of one element that do not stay"); };
        if (Units(wide) <= Units(m[root]->shape())) return stay();
        const std::vector<int64_t> perm_of = PermOf(m.node(turned));
        const bool batch = perm_of[0] == 0 && RankOf(*m[x]) > 0 && StaticDim(*m[x], 0) == 1;
        std::vector<int64_t> place(static_cast<size_t>(wide.rank()), -1);
        std::vector<Dim> kept;
        for (int i = 0; i < wide.rank(); ++i) {
          if (wide[i].KnownEqual(1) && !(batch && i == 0)) continue;
          place[static_cast<size_t>(i)] = static_cast<int64_t>(kept.size());
          kept.push_back(wide[i]);
        }
        if (kept.empty()) return InvalidModel("needs more than one element");
        if (static_cast<int>(kept.size()) == wide.rank()) return stay();
        std::vector<int64_t> perm;
        std::vector<Dim> after;
        for (const int64_t axis : perm_of) {
          if (place[static_cast<size_t>(axis)] < 0) continue;
          perm.push_back(place[static_cast<size_t>(axis)]);
          after.push_back(wide[static_cast<int>(axis)]);
        }
        INFER_ASSIGN(Value * v, Viewed(m[x], m[x]->shape(), Shape(kept), b));
        if (!IsIdentityPerm(perm)) {
          INFER_ASSIGN(v, b("Transpose", {v}, {{"perm", perm}}));
        }
        return Viewed(v, Shape(after), m[root]->shape(), b);
      },
      .fires_on = {R"(graph g(x: f32[2,6,32]) -> (y) { s = const i64[5] {2,1,6,4,8}
                     r = const i64[3] {8,6,8}  t = Reshape(x, s)
                     u = Transpose(t) {perm=[0,3,1,2,4]}  y = Reshape(u, r) })",
                   R"(graph g(x: f32[N,S,4,8]) -> (y) { a = const i64[1] {3}
                     c = const i64[1] {2}  t = Unsqueeze(x, a)
                     u = Transpose(t) {perm=[0,2,3,1,4]}  y = Squeeze(u, c) })"},
      .silent_on = {{R"(graph g(x: f32[N,4,3,5]) -> (y) { s = const i64[6] {0,1,2,2,3,5}
                       r = const i64[4] {0,1,6,10}  t = Reshape(x, s)
                       u = Transpose(t) {perm=[0,1,4,2,5,3]}  y = Reshape(u, r) })",
                     "axes of one element that do not stay"},
                    {R"(graph g(x: f32[1,24]) -> (y) { s = const i64[4] {1,2,3,4}
                       r = const i64[1] {24}  t = Reshape(x, s)
                       u = Transpose(t) {perm=[0,2,1,3]}  y = Reshape(u, r) })",
                     "axes of one element that do not stay"},
                    {R"(graph g(x: f32[N,S,M]) -> (y) { a = const i64[1] {2}
                       t = Unsqueeze(x, a)  u = Transpose(t) {perm=[1,3,2,0]}
                       y = Flatten(u) {axis=2} })",
                     "a shape that a constant can say"},
                    {R"(graph g(x: f32[2,6,32]) -> (y, u) { s = const i64[5] {2,1,6,4,8}
                       r = const i64[3] {8,6,8}  t = Reshape(x, s)
                       u = Transpose(t) {perm=[0,3,1,2,4]}  y = Reshape(u, r) })",
                     "'u' has other uses"}},
  };
}

Rule SoftmaxWithoutViews() {
  Pattern x = Any(), view = Op(kUnitViews, x).MoreInputs(), factor = Scalar();
  Pattern product = Op("Mul", view, factor), quotient = Op("Div", view, factor);
  Pattern softmax = Op("Softmax", OneOf({product, quotient, view}))
                        .Where("over the last axis", [](const Value& v) {
                          const auto axis = v.producer()->Attr<int64_t>("axis");
                          return axis == -1 || axis + 1 == RankOf(v);
                        });
  Pattern root = Op(kUnitViews, softmax).MoreInputs();
  return {
      .name = "softmax-without-views",
      .doc = "Reshape(Softmax(c * Reshape(x))), rows and shape of x again => Softmax(c * x)",
      .match = root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        if (!SameKnownType(*m[x], *m[root])) return InvalidModel("needs x's shape again");
        const int inner = RankOf(*m[view]), outer = RankOf(*m[x]);
        if (inner < 1 || outer < 1 ||
            !m[view]->shape()[inner - 1].KnownEqual(m[x]->shape()[outer - 1]))
          return InvalidModel("needs rows that stay whole");
        Value* v = m[x];
        if (m.Has(product) || m.Has(quotient)) {
          INFER_ASSIGN(v, b(m.Has(product) ? "Mul" : "Div", {v, m[factor]}));
        }
        return b("Softmax", {v}, {{"axis", int64_t{-1}}});
      },
      .fires_on = {R"(graph g(x: f32[N,S,T]) -> (y) { a = const i64[1] {1}
                     c = const f32[] {0.5}  t = Unsqueeze(x, a)  u = Mul(t, c)
                     p = Softmax(u) {axis=3}  y = Squeeze(p, a) })",
                   R"(graph g(x: f32[2,3,4]) -> (y) { s = const i64[2] {6,4}
                     r = const i64[3] {2,3,4}  t = Reshape(x, s)  p = Softmax(t)
                     y = Reshape(p, r) })"},
      .silent_on = {{R"(graph g(x: f32[2,3,4]) -> (y) { s = const i64[2] {2,12}
                       r = const i64[3] {2,3,4}  t = Reshape(x, s)  p = Softmax(t)
                       y = Reshape(p, r) })",
                     "rows that stay whole"},
                    {R"(graph g(x: f32[2,3,4]) -> (y) { s = const i64[2] {6,4}
                       r = const i64[3] {3,2,4}  t = Reshape(x, s)  p = Softmax(t)
                       y = Reshape(p, r) })",
                     "x's shape again"},
                    {R"(graph g(x: f32[2,3,4]) -> (y) { s = const i64[2] {6,4}
                       r = const i64[3] {2,3,4}  t = Reshape(x, s)  p = Softmax(t) {axis=0}
                       y = Reshape(p, r) })",
                     "over the last axis"}},
  };
}

}  // namespace infer
