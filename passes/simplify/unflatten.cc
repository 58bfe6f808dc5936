/// Matrix products of rows that were put into one matrix for it and are taken apart behind.
#include <algorithm>

#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {

namespace {

/// The first axis of those that together have `columns` elements and nothing before has a part of;
/// -1: there is none.
int FirstOfColumns(const Shape& shape, int64_t columns) {
  int64_t product = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (!shape[i].is_static() || shape[i].value() <= 0 || columns % shape[i].value() != 0)
      return -1;
    product *= shape[i].value();
    if (product == columns) return i;
    if (product > columns) return -1;
  }
  return -1;
}

}  // namespace

Rule UnflattenMatMul() {
  Pattern x = Any(), flat = Op("Reshape|Flatten", x).MoreInputs().Shared();
  Pattern weight = Constant(), matmul = Op("MatMul", flat, weight);
  // The default of these is a product alone; beta is of an operand that is not there.
  Pattern gemm = Op("Gemm", flat, weight).Where("of factor 1", [](const Value& v) {
    return v.producer()->Attr<float>("alpha") == 1 && v.producer()->Attr<int64_t>("transA") == 0;
  });
  Pattern product = OneOf({matmul, gemm});
  Pattern bias = Constant().Where("one number per column",
                                  [](const Value& v) { return v.constant()->rank() <= 1; });
  Pattern sum = Op("Add", product, bias), inner = OneOf({product, sum});
  Pattern root = Op("Reshape|Unsqueeze", inner).MoreInputs();
  return {
      .name = "unflatten-matmul",
      .doc =
          "Reshape(MatMul(Reshape(x, [-1, k]), w), [.., n]) => MatMul(Reshape(x, [.., k]), w), "
          "also with a bias, of a Gemm, with columns that are parted",
      .match = root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Tensor& given = m.tensor(weight);
        if (given.rank() != 2 || RankOf(*m[flat]) != 2) return InvalidModel("needs two matrices");
        const bool turned = m.Has(gemm) && m.node(gemm).Attr<int64_t>("transB") != 0;
        const int64_t k = given.dim(turned ? 1 : 0), n = given.dim(turned ? 0 : 1);
        const int rank = RankOf(*m[root]),
                  first = rank < 2 ? -1 : FirstOfColumns(m[root]->shape(), n);
        if (first < 1) return InvalidModel("needs rows that stay whole");
        std::vector<Dim> rows = m[root]->shape().dims();
        rows.resize(static_cast<size_t>(first));
        std::vector<Dim> made = rows;
        made.emplace_back(n);
        rows.emplace_back(k);
        const Shape wanted(std::move(rows));
        Value* v = m[x];
        const Shape& have = v->shape();
        const bool same = have.has_rank() &&
                          std::equal(have.dims().begin(), have.dims().end(), wanted.dims().begin(),
                                     wanted.dims().end(),
                                     [](const Dim& p, const Dim& q) { return p.KnownEqual(q); });
        // The same matrix again, for ever.
        if (!same && wanted.rank() == 2) return InvalidModel("needs rows of several axes");
        if (!same) {
          const auto target = ReshapeTarget(have, wanted);
          if (!target) return InvalidModel("needs a shape that a constant can say");
          INFER_ASSIGN(v, b("Reshape", {v, b.Ints(*target)}));
        }
        Value* w = turned ? b.Const(Transposed(given, {1, 0})) : m[weight];
        INFER_ASSIGN(Value * result, b("MatMul", {v, w}));
        if (m.Has(sum)) {
          INFER_ASSIGN(result, b("Add", {result, m[bias]}));
        }
        if (first == rank - 1) return result;
        const auto target = ReshapeTarget(Shape(std::move(made)), m[root]->shape());
        if (!target) return InvalidModel("needs a shape that a constant can say");
        return b("Reshape", {result, b.Ints(*target)});
      },
      .fires_on = {R"(graph g(x: f32[N,7,4]) -> (y) { s = const i64[2] {-1,4}
                     r = const i64[3] {-1,7,5}  w = const f32[4,5] ~1  t = Reshape(x, s)
                     u = MatMul(t, w)  y = Reshape(u, r) })",
                   R"(graph g(x: f32[N,7,2,2]) -> (y, v) { s = const i64[2] {-1,4}
                     r = const i64[3] {-1,7,5}  w = const f32[4,5] ~1  k = const f32[5] ~2
                     t = Reshape(x, s)  u = MatMul(t, w)  a = Add(k, u)  y = Reshape(a, r)
                     v = Relu(t) })",
                   R"(graph g(x: f32[N,S,4]) -> (y) { s = const i64[2] {-1,4}
                     w = const f32[6,4] ~1  t = Reshape(x, s)  u = Gemm(t, w) {transB=1}
                     d = Shape(x)  i = const i64[2] {0,1}  e = Gather(d, i)
                     h = const i64[3] {2,3,1}  r = Concat(e, h) {axis=0}  y = Reshape(u, r) })"},
      .silent_on = {{R"(graph g(x: f32[N,7,4]) -> (y) { s = const i64[2] {-1,4}
                       r = const i64[3] {-1,7,10}  w = const f32[4,5] ~1  t = Reshape(x, s)
                       u = MatMul(t, w)  y = Reshape(u, r) })",
                     "rows that stay whole"},
                    {R"(graph g(x: f32[N,7,4]) -> (y, u) { s = const i64[2] {-1,4}
                       r = const i64[3] {-1,7,5}  w = const f32[4,5] ~1  t = Reshape(x, s)
                       u = MatMul(t, w)  y = Reshape(u, r) })",
                     "'u' has other uses"},
                    {R"(graph g(x: f32[N,4,1]) -> (y) { s = const i64[2] {0,4}
                       r = const i64[3] {0,2,3}  w = const f32[4,6] ~1  t = Reshape(x, s)
                       u = MatMul(t, w)  y = Reshape(u, r) })",
                     "rows of several axes"},
                    {R"(graph g(x: f32[N,7,4]) -> (y) { s = const i64[3] {-1,1,4}
                       r = const i64[3] {-1,7,5}  w = const f32[4,5] ~1  t = Reshape(x, s)
                       u = MatMul(t, w)  y = Reshape(u, r) })",
                     "two matrices"},
                    {R"(graph g(x: f32[N,7,4]) -> (y) { s = const i64[2] {-1,4}
                       r = const i64[3] {-1,7,5}  w = const f32[4,5] ~1  t = Reshape(x, s)
                       u = Gemm(t, w) {alpha=0.5}  y = Reshape(u, r) })",
                     "of factor 1"}},
  };
}

}  // namespace infer
