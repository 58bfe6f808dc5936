/// Axes of one element around transpositions: an Einsum that tf2onnx took apart puts them between
/// the axes that it multiplies and those that it keeps.
#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

constexpr std::string_view kUnitViews = "Reshape|Flatten|Squeeze|Unsqueeze";

bool EqualShapes(const Shape& a, const Shape& b) {
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i)
    if (!a[i].KnownEqual(b[i])) return false;
  return true;
}

/// x as a value of the shape `to`, x itself where it has it.
Result<Value*> Viewed(Value* x, const Shape& from, const Shape& to, PatchBuilder& b) {
  if (EqualShapes(from, to)) return x;
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
        std::vector<int64_t> place(static_cast<size_t>(wide.rank()), -1);
        std::vector<Dim> kept;
        for (int i = 0; i < wide.rank(); ++i) {
          if (wide[i].KnownEqual(1)) continue;
          place[static_cast<size_t>(i)] = static_cast<int64_t>(kept.size());
          kept.push_back(wide[i]);
        }
        if (kept.empty() || static_cast<int>(kept.size()) == wide.rank())
          return InvalidModel("needs an axis of one element beside others");
        std::vector<int64_t> perm;
        std::vector<Dim> after;
        for (const int64_t axis : PermOf(m.node(turned))) {
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
      .silent_on = {{R"(graph g(x: f32[N,24]) -> (y) { s = const i64[4] {0,2,3,4}
                       r = const i64[2] {0,24}  t = Reshape(x, s)
                       u = Transpose(t) {perm=[0,2,1,3]}  y = Reshape(u, r) })",
                     "an axis of one element beside others"},
                    {R"(graph g(x: f32[N,S,4]) -> (y) { a = const i64[1] {2}
                       c = const i64[1] {0}  t = Unsqueeze(x, a)
                       u = Transpose(t) {perm=[2,1,0,3]}  y = Unsqueeze(u, c) })",
                     "a shape that a constant can say"},
                    {R"(graph g(x: f32[2,6,32]) -> (y, u) { s = const i64[5] {2,1,6,4,8}
                       r = const i64[3] {8,6,8}  t = Reshape(x, s)
                       u = Transpose(t) {perm=[0,3,1,2,4]}  y = Reshape(u, r) })",
                     "'u' has other uses"}},
  };
}

}  // namespace infer
