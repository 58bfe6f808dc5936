/// Matrix products of rows that were put into one matrix for it and are taken apart behind.
#include <algorithm>

#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {

Rule UnflattenMatMul() {
  Pattern x = Any(), flat = Op("Reshape|Flatten", x).MoreInputs().Shared();
  Pattern weight = Constant(), product = Op("MatMul", flat, weight);
  Pattern bias = Constant().Where("one number per column",
                                  [](const Value& v) { return v.constant()->rank() <= 1; });
  Pattern sum = Op("Add", product, bias), inner = OneOf({product, sum});
  Pattern root = Op("Reshape|Unsqueeze", inner).MoreInputs();
  return {
      .name = "unflatten-matmul",
      .doc =
          "Reshape(MatMul(Reshape(x, [-1, k]), w), [.., n]) => MatMul(Reshape(x, [.., k]), w), "
          "also with a bias",
      .match = root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Tensor& w = m.tensor(weight);
        if (w.rank() != 2 || RankOf(*m[flat]) != 2) return InvalidModel("needs two matrices");
        const int rank = RankOf(*m[root]);
        if (rank < 2 || StaticDim(*m[root], -1) != w.dim(1))
          return InvalidModel("needs rows that stay whole");
        std::vector<Dim> rows = m[root]->shape().dims();
        rows.back() = Dim(w.dim(0));
        const Shape wanted(std::move(rows));
        Value* v = m[x];
        const Shape& have = v->shape();
        const bool same = have.has_rank() &&
                          std::equal(have.dims().begin(), have.dims().end(), wanted.dims().begin(),
                                     wanted.dims().end(),
                                     [](const Dim& p, const Dim& q) { return p.KnownEqual(q); });
        if (!same) {
          const auto target = ReshapeTarget(have, wanted);
          if (!target) return InvalidModel("needs a shape that a constant can say");
          INFER_ASSIGN(v, b("Reshape", {v, b.Ints(*target)}));
        }
        INFER_ASSIGN(Value * result, b("MatMul", {v, m[weight]}));
        if (m.choice(inner) == 0) return result;
        return b("Add", {result, m[bias]});
      },
      .fires_on = {R"(graph g(x: f32[N,7,4]) -> (y) { s = const i64[2] {-1,4}
                     r = const i64[3] {-1,7,5}  w = const f32[4,5] ~1  t = Reshape(x, s)
                     u = MatMul(t, w)  y = Reshape(u, r) })",
                   R"(graph g(x: f32[N,7,2,2]) -> (y, v) { s = const i64[2] {-1,4}
                     r = const i64[3] {-1,7,5}  w = const f32[4,5] ~1  k = const f32[5] ~2
                     t = Reshape(x, s)  u = MatMul(t, w)  a = Add(k, u)  y = Reshape(a, r)
                     v = Relu(t) })"},
      .silent_on = {{R"(graph g(x: f32[N,7,4]) -> (y) { s = const i64[2] {-1,4}
                       r = const i64[3] {-1,7,10}  w = const f32[4,5] ~1  t = Reshape(x, s)
                       u = MatMul(t, w)  y = Reshape(u, r) })",
                     "rows that stay whole"},
                    {R"(graph g(x: f32[N,7,4]) -> (y, u) { s = const i64[2] {-1,4}
                       r = const i64[3] {-1,7,5}  w = const f32[4,5] ~1  t = Reshape(x, s)
                       u = MatMul(t, w)  y = Reshape(u, r) })",
                     "'u' has other uses"},
                    {R"(graph g(x: f32[N,7,4]) -> (y) { s = const i64[3] {-1,1,4}
                       r = const i64[3] {-1,7,5}  w = const f32[4,5] ~1  t = Reshape(x, s)
                       u = MatMul(t, w)  y = Reshape(u, r) })",
                     "two matrices"}},
  };
}

}  // namespace infer
