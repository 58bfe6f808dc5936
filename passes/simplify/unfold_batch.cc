/// Batched matrix products whose batch axes were folded into one for them and are taken apart
/// behind.
#include <algorithm>

#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

constexpr std::string_view kFolds = "Reshape|Flatten|Squeeze|Unsqueeze";

/// A value of which a view has three axes: all but the last two are the first of these.
struct Folded {
  std::vector<Dim> batch;      ///< with axes of one element
  std::vector<Dim> extents;    ///< without
  std::vector<int64_t> units;  ///< all axes of one element but the matrices' own
};

std::optional<Folded> FoldedFrom(const Shape& whole, const Shape& flat) {
  if (!whole.has_rank() || !flat.has_rank() || flat.rank() != 3) return std::nullopt;
  Folded f;
  int at = whole.rank() - 1;
  for (const int axis : {2, 1}) {
    for (; at >= 0 && !whole[at].KnownEqual(flat[axis]); --at) {
      if (!whole[at].KnownEqual(1)) return std::nullopt;
      f.units.push_back(at);
    }
    if (at-- < 0) return std::nullopt;
  }
  Dim product = 1;
  for (int i = 0; i <= at; ++i) {
    f.batch.push_back(whole[i]);
    if (whole[i].KnownEqual(1)) {
      f.units.push_back(i);
    } else {
      f.extents.push_back(whole[i]);
      product = product * whole[i];
    }
  }
  if (!product.KnownEqual(flat[0])) return std::nullopt;
  std::sort(f.units.begin(), f.units.end());
  return f;
}

Shape WithMatrix(std::vector<Dim> batch, const Shape& matrix) {
  batch.push_back(matrix[1]);
  batch.push_back(matrix[2]);
  return Shape(std::move(batch));
}

/// x, whose view is `flat`, with the axes `batch` before its matrices.
Result<Value*> Unfolded(Value* x, const Folded& f, const std::vector<Dim>& batch, const Shape& flat,
                        PatchBuilder& b) {
  const Shape wanted = WithMatrix(batch, flat);
  if (KnownEqual(x->shape().dims(), wanted.dims())) return x;
  if (KnownEqual(f.extents, batch)) return b("Squeeze", {x, b.Ints(f.units)});
  const auto target = ReshapeTarget(x->shape(), wanted);
  if (!target) return InvalidModel("needs a shape that a constant can say");
  return b("Reshape", {x, b.Ints(*target)});
}

/// v, or what it is a view of, in the extents `wanted`.
Result<Value*> SeenAs(Value* v, const Shape& wanted, PatchBuilder& b) {
  for (Value* from = v; from;) {
    if (KnownEqual(from->shape().dims(), wanted.dims())) return from;
    if (const auto target = ReshapeTarget(from->shape(), wanted))
      return b("Reshape", {from, b.Ints(*target)});
    const Node* n = from->producer();
    from = n && n->Is(Trait::kView) ? n->input(0) : nullptr;
  }
  return InvalidModel("needs a shape that a constant can say");
}

/// The term of the folded products, for the products with the axes `batch`. `root`: the view
/// that unfolds the sum.
Result<Value*> UnfoldedTerm(Value* term, const std::vector<Dim>& batch, const Shape& flat,
                            const Node& root, PatchBuilder& b) {
  if (KnownEqual(term->shape().dims(), flat.dims()) && root.Is("Reshape") &&
      root.output(0)->shape().rank() == static_cast<int>(batch.size()) + 2)
    return b("Reshape", {term, root.input(1)}, root.attrs());
  const int rank = RankOf(*term);
  if (rank < 0 || rank > 3) return InvalidModel("needs a term of three axes at most");
  if (rank < 3) return term;
  std::vector<Dim> extents = batch;
  if (StaticDim(*term, 0) == 1) {
    std::fill(extents.begin(), extents.end(), Dim(1));
  } else if (!term->shape()[0].KnownEqual(flat[0])) {
    return InvalidModel("needs a term for each product, or one for all");
  }
  return SeenAs(term, WithMatrix(std::move(extents), term->shape()), b);
}

struct FoldedOperand {
  Pattern x = Any(), flat = Op(kFolds, x).MoreInputs().Shared();
  Pattern turned =
      Op("Transpose", flat).Shared().Where("a swap of the last two axes", [](const Value& v) {
        return PermOf(*v.producer()) == std::vector<int64_t>{0, 2, 1};
      });
  Pattern soft = Op("Softmax", flat).Where("over the last axis", [](const Value& v) {
    const auto axis = v.producer()->Attr<int64_t>("axis");
    return axis == -1 || axis + 1 == RankOf(v);
  });
  Pattern factor = Scalar(), divisor = Scalar(), plain = OneOf({turned, flat});
  Pattern times = Op("Mul", plain, factor), over = Op("Div", plain, divisor);
  Pattern either = OneOf({times, over, soft, plain});
};

}  // namespace

Rule UnfoldBatch() {
  FoldedOperand left, right;
  Pattern product = Op("MatMul", left.either, right.either);
  Pattern factor = Scalar(), term = Any();
  Pattern scaled = Op("Mul", product, factor), maybe_scaled = OneOf({scaled, product});
  Pattern sum = Op("Add", maybe_scaled, term);
  Pattern root = Op(kFolds, OneOf({sum, maybe_scaled})).MoreInputs();
  return {
      .name = "unfold-batch",
      .doc =
          "Reshape(MatMul(Reshape(a, [b*h, m, k]), Reshape(c, [b*h, k, n])), [b, h, m, n]) => "
          "MatMul(a, c), also with transposed operands, their Softmax and axes of one element; "
          "factors and a term of the product follow",
      .match = root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Shape &whole = m[root]->shape(), &flat = m[product]->shape();
        const auto result = FoldedFrom(whole, flat);
        const auto a = FoldedFrom(m[left.x]->shape(), m[left.flat]->shape());
        const auto c = FoldedFrom(m[right.x]->shape(), m[right.flat]->shape());
        if (!result || !a || !c || !KnownEqual(a->extents, c->extents) ||
            !KnownEqual(a->extents, result->extents))
          return InvalidModel("needs batch axes that are folded and unfolded alike");
        // Two axes at least: else the product is the same again.
        const bool bare = a->extents.size() >= 2;
        const std::vector<Dim>& batch = bare ? a->extents : result->batch;
        if (batch.size() < 2) return InvalidModel("needs two batch axes or more");
        std::vector<int64_t> swap;
        for (size_t i = 0; i < batch.size() + 2; ++i) swap.push_back(static_cast<int64_t>(i));
        std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
        std::vector<Value*> operands;
        for (const auto& [side, folded] : {std::pair(&left, &a), std::pair(&right, &c)}) {
          INFER_ASSIGN(Value * v, Unfolded(m[side->x], **folded, batch, m[side->flat]->shape(), b));
          if (m.Has(side->turned)) {
            INFER_ASSIGN(v, b("Transpose", {v}, {{"perm", swap}}));
          }
          if (m.Has(side->times) || m.Has(side->over)) {
            const bool by = m.Has(side->times);
            INFER_ASSIGN(v, b(by ? "Mul" : "Div", {v, m[by ? side->factor : side->divisor]}));
          }
          if (m.Has(side->soft)) {
            INFER_ASSIGN(v, b("Softmax", {v}, {{"axis", int64_t{-1}}}));
          }
          operands.push_back(v);
        }
        INFER_ASSIGN(Value * y, b("MatMul", {operands[0], operands[1]}));
        const Shape made = WithMatrix(batch, flat);
        if (m.Has(scaled)) {
          INFER_ASSIGN(y, b("Mul", {y, m[factor]}));
        }
        if (m.Has(sum)) {
          if (!SameKnownType(*m[sum], *m[product]))
            return InvalidModel("needs a term that repeats no product");
          INFER_ASSIGN(Value * added, UnfoldedTerm(m[term], batch, flat, m.node(root), b));
          INFER_ASSIGN(y, b("Add", {y, added}));
        }
        if (KnownEqual(made.dims(), whole.dims())) return y;
        if (bare) return b("Unsqueeze", {y, b.Ints(result->units)});
        const auto target = ReshapeTarget(made, whole);
        if (!target) return InvalidModel("needs a shape that a constant can say");
        return b("Reshape", {y, b.Ints(*target)});
      },
      .fires_on = {R"(graph g(a: f32[2,3,5,4], c: f32[2,3,4,6]) -> (y) { s = const i64[3] {6,5,4}
                     t = const i64[3] {-1,4,6}  r = const i64[4] {2,3,5,6}  u = Reshape(a, s)
                     v = Reshape(c, t)  p = MatMul(u, v)  y = Reshape(p, r) })",
                   R"(graph g(a: f32[N,3,S,1,4], c: f32[N,3,1,S,4]) -> (y) { s = Shape(a)
                     i = const i64[2] {0,1}  e = Gather(s, i)  d = ReduceProd(e) {keepdims=1}
                     o = const i64[1] {-1}  k = const i64[1] {4}  f = Concat(d, o, k) {axis=0}
                     j = const i64[1] {2}  l = Gather(s, j)  n = const i64[1] {1}
                     r = Concat(e, l, l, n) {axis=0}  u = Reshape(a, f)  v = Reshape(c, f)
                     w = Transpose(v) {perm=[0,2,1]}  p = MatMul(u, w)  y = Reshape(p, r) })",
                   R"(graph g(a: f32[2,3,5,6], c: f32[2,3,6,4]) -> (y) { s = const i64[3] {6,5,6}
                     t = const i64[3] {-1,6,4}  r = const i64[4] {2,3,5,4}  u = Reshape(a, s)
                     q = Softmax(u)  v = Reshape(c, t)  p = MatMul(q, v)  y = Reshape(p, r) })",
                   // ALiBi: a term for each head, as Bloom adds it.
                   R"(graph g(a: f32[N,3,S,4], c: f32[N,3,S,4], m: f32[N,3,S]) -> (y) {
                     h = Shape(a) {start=0, end=1}  o = const i64[1] {-1}  k = const i64[1] {4}
                     three = const i64[1] {3}  n = Mul(h, three)  f = Concat(n, o, k) {axis=0}
                     l = Shape(a) {start=2, end=3}  r = Concat(h, three, l, l) {axis=0}
                     one = const i64[1] {1}  g = Concat(n, one, l) {axis=0}  e = Reshape(m, g)
                     u = Reshape(a, f)  v = Reshape(c, f)  w = Transpose(v) {perm=[0,2,1]}
                     p = MatMul(u, w)  t = const f32[] {0.5}  q = Mul(p, t)  s = Add(q, e)
                     y = Reshape(s, r) })",
                   // DeBERTa: a term for each score.
                   R"(graph g(a: f32[N,3,S,4], c: f32[N,3,4,S], a2: f32[N,3,S,4]) -> (y) {
                     h = Shape(a) {start=0, end=1}  o = const i64[1] {-1}  k = const i64[1] {4}
                     three = const i64[1] {3}  n = Mul(h, three)  f = Concat(n, o, k) {axis=0}
                     l = Shape(a) {start=2, end=3}  r = Concat(h, three, l, l) {axis=0}
                     g = Concat(n, k, o) {axis=0}  u = Reshape(a, f)  v = Reshape(c, g)
                     p = MatMul(u, v)  e = Sin(p)  w = Reshape(a2, f)  x = const f32[] {4}
                     z = Div(v, x)  d = MatMul(w, z)  s = Add(d, e)
                     y = Reshape(s, r) })",
                   R"(graph g(a: f32[2,3,5,4], c: f32[2,3,4,6], e: f32[5,6]) -> (y) {
                     s = const i64[3] {6,5,4}  t = const i64[3] {-1,4,6}
                     r = const i64[4] {2,3,5,6}  u = Reshape(a, s)  v = Reshape(c, t)
                     p = MatMul(u, v)  q = Add(e, p)  y = Reshape(q, r) })",
                   R"(graph g(a: f32[1,3,5,4], c: f32[1,3,4,6]) -> (y) { z = const i64[1] {0}
                     u = Squeeze(a, z)  v = Squeeze(c, z)  p = MatMul(u, v)
                     y = Unsqueeze(p, z) })"},
      .silent_on = {{R"(graph g(a: f32[2,3,5,4], c: f32[3,2,4,6]) -> (y) { s = const i64[3] {6,5,4}
                       t = const i64[3] {-1,4,6}  r = const i64[4] {2,3,5,6}  u = Reshape(a, s)
                       v = Reshape(c, t)  p = MatMul(u, v)  y = Reshape(p, r) })",
                     "folded and unfolded alike"},
                    {R"(graph g(a: f32[2,3,5,4], c: f32[2,3,4,6]) -> (y) { s = const i64[3] {6,5,4}
                       t = const i64[3] {-1,4,6}  r = const i64[4] {2,3,6,5}  u = Reshape(a, s)
                       v = Reshape(c, t)  p = MatMul(u, v)  y = Reshape(p, r) })",
                     "folded and unfolded alike"},
                    {R"(graph g(a: f32[2,3,5,6], c: f32[2,3,6,4]) -> (y) { s = const i64[3] {6,5,6}
                       t = const i64[3] {-1,6,4}  r = const i64[4] {2,3,5,4}  u = Reshape(a, s)
                       q = Softmax(u) {axis=1}  v = Reshape(c, t)  p = MatMul(q, v)
                       y = Reshape(p, r) })",
                     "over the last axis"},
                    {R"(graph g(a: f32[2,3,5,4], c: f32[2,3,4,6], e: f32[1,6,5,6]) -> (y) {
                       s = const i64[3] {6,5,4}  t = const i64[3] {-1,4,6}
                       r = const i64[4] {2,3,5,6}  u = Reshape(a, s)  v = Reshape(c, t)
                       p = MatMul(u, v)  q = Add(e, p)  y = Reshape(q, r) })",
                     "a term that repeats no product"},
                    {R"(graph g(a: f32[6,1,5,4], c: f32[6,1,4,6]) -> (y) { z = const i64[1] {1}
                       e = const i64[1] {2}  u = Squeeze(a, z)  v = Squeeze(c, z)
                       p = MatMul(u, v)  y = Unsqueeze(p, e) })",
                     "two batch axes or more"},
                    {R"(graph g(a: f32[4,3,5,4], c: f32[4,3,5,5]) -> (y) { s = const i64[3] {12,5,4}
                       t = const i64[3] {-1,5,5}  r = const i64[4] {4,3,4,5}  u = Reshape(a, s)
                       q = Transpose(u) {perm=[1,2,0]}  k = const i64[3] {12,4,5}
                       w = Reshape(q, k)  v = Reshape(c, t)  p = MatMul(w, v)
                       y = Reshape(p, r) })",
                     "folded and unfolded alike"}},
  };
}

}  // namespace infer
