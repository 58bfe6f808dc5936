#include "passes/fuse/fusions.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

bool IsAtMostAMatrix(const Value& v) { return RankOf(v) >= 0 && RankOf(v) <= 2; }

}  // namespace

Rule FuseMatMulAdd() {
  Pattern a = Any(), b = Any();
  Pattern product = Op("MatMul|Gemm", a, b);
  Pattern bias = Any().Where("a matrix or less", IsAtMostAMatrix);
  return {
      .name = "fuse-matmul-add",
      .doc = "A*B + C => Gemm(A, B, C), for matrices (also where Gemm adds nothing yet)",
      .match = Op("Add", product, bias),
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& make) -> Result<Value*> {
        if (RankOf(*m[a]) != 2 || RankOf(*m[b]) != 2)
          return InvalidModel("needs a product of two matrices");
        AttrMap attrs = m.node(product).attrs();
        attrs.erase("beta");
        return make("Gemm", {m[a], m[b], m[bias]}, std::move(attrs));
      },
      .fires_on = {R"(graph g(x: f32[N,3]) -> (y) { w = const f32[3,4] ~1  c = const f32[4] ~2
                     t = MatMul(x, w)  y = Add(c, t) })",
                   R"(graph g(x: f32[2,3], c: f32[2,4]) -> (y) { w = const f32[3,4] ~1
                     t = MatMul(x, w)  y = Add(t, c) })",
                   R"(graph g(x: f32[2,3], c: f32[1,4]) -> (y) { w = const f32[4,3] ~1
                     t = Gemm(x, w) {transB=1, alpha=0.5}  y = Add(t, c) })"},
      .silent_on = {{R"(graph g(x: f32[2,3], c: f32[1,2,4]) -> (y) { w = const f32[3,4] ~1
                       t = MatMul(x, w)  y = Add(t, c) })",
                     "'c' is not a matrix or less"},
                    {R"(graph g(x: f32[2,2,3]) -> (y) { w = const f32[3,4] ~1  c = const f32[4] ~2
                       t = MatMul(x, w)  y = Add(t, c) })",
                     "a product of two matrices"},
                    {R"(graph g(x: f32[2,3]) -> (y) { w = const f32[3,1] ~1  c = const f32[4] ~2
                       t = MatMul(x, w)  y = Add(t, c) })",
                     "does not broadcast"}},
  };
}

}  // namespace infer
