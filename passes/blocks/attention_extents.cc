/// Masks that are made to the extents of scores, keys or values: these are taken from the graph's
/// inputs instead, so that what belongs into Attention is read by nobody else.
#include <algorithm>

#include "passes/blocks/attention.h"
#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

struct Extent {
  Value* input;
  int axis;
  Dim dim;
};

/// Symbolic extents of the graph inputs that `v` is computed from, nearest first.
std::vector<Extent> ExtentsOfInputs(Value* v) {
  constexpr size_t kMaxValues = 256, kMaxExtents = 12;
  std::vector<Value*> seen = {v};
  std::vector<Extent> extents;
  for (size_t i = 0; i < seen.size() && extents.size() < kMaxExtents; ++i) {
    if (seen[i]->is_input()) {
      for (int axis = 0; axis < RankOf(*seen[i]); ++axis) {
        const Dim& d = seen[i]->shape()[axis];
        const bool known = std::any_of(extents.begin(), extents.end(),
                                       [&](const Extent& e) { return e.dim.KnownEqual(d); });
        if (d.is_symbolic() && !known) extents.push_back({seen[i], axis, d});
      }
      continue;
    }
    if (!seen[i]->producer()) continue;
    for (Value* x : seen[i]->producer()->inputs())
      if (x && !x->is_constant() && seen.size() < kMaxValues &&
          std::find(seen.begin(), seen.end(), x) == seen.end())
        seen.push_back(x);
  }
  return extents;
}

bool IsKeysOrValues(const Value& v) {
  return std::any_of(v.uses().begin(), v.uses().end(), [](const Use& u) {
    return u.user->Is("Attention") && (u.operand == 1 || u.operand == 2);
  });
}

/// The one symbolic extent that `v` holds; nullptr else.
const Dim* SymbolIn(const Value& v) {
  const auto& elements = v.elements();
  return elements && elements->size() == 1 && (*elements)[0].is_symbolic() ? &(*elements)[0]
                                                                           : nullptr;
}

Result<Value*> Read(const Extent& e, PatchBuilder& b) {
  return b("Shape", {e.input}, {{"end", int64_t{e.axis + 1}}, {"start", int64_t{e.axis}}});
}

/// [dim] from extents of inputs: one of them or the sum of two, and a number.
Result<Value*> Computed(const Dim& dim, const std::vector<Extent>& extents, PatchBuilder& b) {
  const auto plus = [&](Value* sum, const Dim& rest) -> Result<Value*> {
    if (rest.value() == 0) return sum;
    return b("Add", {sum, b.Ints({rest.value()})});
  };
  for (const Extent& e : extents)
    if (const Dim rest = dim - e.dim; rest.is_static()) {
      INFER_ASSIGN(Value * one, Read(e, b));
      return plus(one, rest);
    }
  for (const Extent& e : extents)
    for (const Extent& f : extents)
      if (const Dim rest = dim - e.dim - f.dim; rest.is_static()) {
        INFER_ASSIGN(Value * one, Read(e, b));
        INFER_ASSIGN(Value * two, Read(f, b));
        INFER_ASSIGN(Value * sum, b("Add", {one, two}));
        return plus(sum, rest);
      }
  return InvalidModel("needs an extent that follows from those of the inputs");
}

}  // namespace

Result<Value*> ExtentFromInputs(const Dim& dim, Value* v, PatchBuilder& b) {
  return Computed(dim, ExtentsOfInputs(v), b);
}

namespace {

/// The extent of the axis that a Concat of two joins along, as a sum: in place of its Shape.
Result<Value*> SumOfParts(const Node& shape, PatchBuilder& b) {
  const Node* concat = shape.input(0)->producer();
  const int rank = RankOf(*shape.input(0));
  const auto along = [&](int64_t axis) { return axis < 0 ? axis + rank : axis; };
  if (!concat || !concat->Is("Concat") || concat->inputs().size() != 2 ||
      StaticDim(*shape.output(), 0) != 1 ||
      along(concat->Attr<int64_t>("axis")) != along(shape.Attr<int64_t>("start")))
    return InvalidModel("needs an extent that follows from those of the inputs, or of two parts");
  INFER_ASSIGN(Value * one, b("Shape", {concat->input(0)}, shape.attrs()));
  INFER_ASSIGN(Value * two, b("Shape", {concat->input(1)}, shape.attrs()));
  return b("Add", {one, two});
}

}  // namespace

Rule ScoreExtentFromInputs() {
  Pattern x = Op("MatMul|Mul|Div|Add|Where|Concat|Transpose|Reshape|Expand|Tile|Gather", Any())
                  .MoreInputs()
                  .Shared();
  Pattern root = Op("Gather|Slice", Op("Shape", x).Shared()).MoreInputs();
  return {
      .name = "extent-from-inputs",
      .doc = "Gather|Slice(Shape(scores)) => an extent of an input, plus another or a number",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Dim* symbol = SymbolIn(*m[root]);
        if (!symbol) return InvalidModel("needs one extent, known as a symbol");
        INFER_ASSIGN(Value * extent, ExtentFromInputs(*symbol, m[x], b));
        if (RankOf(*m[root]) == 1) return extent;
        return b("Squeeze", {extent, b.Ints({0})});
      },
      .fires_on = {R"(graph g(q: f32[2,S,4], p: f32[2,P,4]) -> (y) { i = const i64[] {1}
             k = Concat(p, q) {axis=1}  s = Shape(k)  y = Gather(s, i) })",
                   R"(graph g(q: f32[2,S,4], p: f32[2,P,4]) -> (y, r) { i = const i64[1] {2}
             j = const i64[1] {3}  k = Concat(p, q) {axis=1}  u = const i64[1] {1}
             e = const i64[4] {1,2,1,1}  l = Unsqueeze(k, u)  r = Expand(l, e)  s = Shape(r)
             y = Slice(s, i, j) })",
                   R"(graph g(q: f32[2,S,4], kt: f32[2,4,T]) -> (m, y) { a = const i64[1] {-1}
             e = const i64[1] {9}  d = const f32[] {2}  m1 = MatMul(q, kt)  m = Div(m1, d)
             s = Shape(m)  y = Slice(s, a, e) })"},
      .silent_on = {{R"(graph g(q: f32[2,S,4], kt: f32[2,4,T]) -> (m, y) {
              a = const i64[1] {1}  e = const i64[1] {9}  m = MatMul(q, kt)  s = Shape(m)
              y = Slice(s, a, e) })",
                     "one extent, known as a symbol"},
                    {R"(graph g(q: f32[2,S,4]) -> (y) { i = const i64[] {1}  s = Shape(q)
              y = Gather(s, i) })",
                     "'q' is a graph input"}},
  };
}

Rule KeyExtentFromInputs() {
  // Fusion reads the values' length for a mask that broadcasts over the keys.
  Pattern keys = Op("Concat|Reshape|Expand|Tile|Gather|Transpose", Any())
                     .MoreInputs()
                     .Shared()
                     .Where("keys or values of an Attention", IsKeysOrValues);
  Pattern root = Op("Shape", keys);
  return {
      .name = "attention-key-extent",
      .doc = "Shape(keys or values of an Attention) => an extent of an input, plus another",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        if (const Dim* symbol = SymbolIn(*m[root]))
          if (auto extent = ExtentFromInputs(*symbol, m[keys], b); extent.ok()) return extent;
        return SumOfParts(m.node(root), b);
      },
      .fires_on = {R"(graph g(q: f32[1,2,S,4], v: f32[1,2,S,4], p: f32[1,2,P,4], m: f32[1,1,S,1])
             -> (y, n) { n = Concat(p, v) {axis=2}  t = Shape(n) {start=2, end=3}
             a = const i64[3] {1,1,1}  e = Concat(a, t) {axis=0}  w = Expand(m, e)
             y = Attention(q, n, n, w) })",
                   R"(graph g(q: f32[1,2,S,4], v: f32[1,2,?,4], p: f32[1,2,P,4]) -> (y, n, t) {
             n = Concat(p, v) {axis=-2}  t = Shape(n) {start=2, end=3}
             y = Attention(q, n, n) })"},
      .silent_on = {{R"(graph g(v: f32[1,2,S,4], p: f32[1,2,P,4]) -> (n, y) {
              n = Concat(p, v) {axis=2}  y = Shape(n) {start=2, end=3} })",
                     "keys or values of an Attention"},
                    {R"(graph g(q: f32[1,2,S,4], v: f32[1,2,S,4], p: f32[1,2,P,4]) -> (y, t) {
              n = Concat(p, v) {axis=2}  t = Shape(n)  y = Attention(q, n, n) })",
                     "or of two parts"}},
  };
}

}  // namespace infer
