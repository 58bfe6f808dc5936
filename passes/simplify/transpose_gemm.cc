/// Transpositions that a Gemm does by itself.
#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

Pattern Turned(const Pattern& x) {
  return Op("Transpose", x).Where("the transposition of a matrix", [](const Value& v) {
    return PermOf(*v.producer()) == std::vector<int64_t>{1, 0};
  });
}

}  // namespace

Rule MergeTransposeGemm() {
  Pattern a = Any(), b = Any(), c = Any().OrOmitted(), x = Any();
  Pattern left = Op("Gemm", Turned(x).Shared(), b, c), right = Op("Gemm", a, Turned(x).Shared(), c);
  Pattern root = OneOf({left, right});
  return {
      .name = "merge-transpose-gemm",
      .doc = "Gemm(Transpose(a), b), Gemm(a, Transpose(b)) => Gemm(a, b) with transA or transB",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& p) -> Result<Value*> {
        const Node& n = *m.root()->producer();
        AttrMap attrs = n.attrs();
        const bool first = m.choice(root) == 0;
        const char* which = first ? "transA" : "transB";
        attrs[which] = int64_t{n.Attr<int64_t>(which) == 0};
        return p("Gemm", {first ? m[x] : m[a], first ? m[b] : m[x], m[c]}, std::move(attrs));
      },
      .fires_on = {R"(graph g(x: f32[N,3], z: f32[N,4], k: f32[4]) -> (y) { t = Transpose(x)
                     y = Gemm(t, z, k) {alpha=0.5} })",
                   R"(graph g(x: f32[3,N], z: f32[N,4]) -> (y, t) { t = Transpose(z) {perm=[1,0]}
                     y = Gemm(x, t) {transB=1} })"},
      .silent_on = {{R"(graph g(x: f32[N,3], z: f32[3,4]) -> (y) { t = Relu(x)
                       y = Gemm(t, z) })",
                     "is a Relu, not a Transpose"}},
  };
}

Rule MergeTransposeMatMul() {
  Pattern a = Any(), b = Any(), x = Any();
  Pattern left = Op("MatMul", Turned(x).Shared(), b), right = Op("MatMul", a, Turned(x).Shared());
  Pattern root = OneOf({left, right});
  return {
      .name = "merge-transpose-matmul",
      .doc =
          "MatMul(Transpose(a), b), MatMul(a, Transpose(b)) of matrices => Gemm with transA or "
          "transB",
      .match = root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& p) -> Result<Value*> {
        const bool first = m.choice(root) == 0;
        return p("Gemm", {first ? m[x] : m[a], first ? m[b] : m[x]},
                 {{first ? "transA" : "transB", int64_t{1}}});
      },
      .fires_on = {R"(graph g(x: f32[N,3], z: f32[N,4]) -> (y) { t = Transpose(x)
                     y = MatMul(t, z) })",
                   R"(graph g(x: f32[3,N], z: f32[4,N]) -> (y) { t = Transpose(z) {perm=[1,0]}
                     y = MatMul(x, t) })"},
      .silent_on = {{R"(graph g(x: i32[3,4], z: i32[5,4]) -> (y) { t = Transpose(z)
                       y = MatMul(x, t) })",
                     "no kernel of Gemm for i32[3,5]"},
                    {R"(graph g(x: f32[2,3,4], z: f32[5,4]) -> (y) { t = Transpose(z)
                       y = MatMul(x, t) })",
                     "wants rank 2"},
                    {R"(graph g(x: f32[2,3,4], z: f32[2,5,4]) -> (y) {
                       t = Transpose(z) {perm=[0,2,1]}  y = MatMul(x, t) })",
                     "not the transposition of a matrix"}},
  };
}

Rule MergeGemmTranspose() {
  Pattern a = Any(), b = Any(), c = Constant().OrOmitted(), gemm = Op("Gemm", a, b, c);
  Pattern root = Turned(gemm);
  return {
      .name = "merge-gemm-transpose",
      .doc = "Transpose(Gemm(a, b, c)) => Gemm(b, a, transposed c) with transA and transB turned",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& p) -> Result<Value*> {
        const Node& n = m.node(gemm);
        AttrMap attrs = n.attrs();
        attrs["transA"] = int64_t{n.Attr<int64_t>("transB") == 0};
        attrs["transB"] = int64_t{n.Attr<int64_t>("transA") == 0};
        Value* term = nullptr;
        if (m.Has(c)) {
          const Tensor& t = m.tensor(c);
          Dims dims(2 - static_cast<size_t>(t.rank()), 1);
          dims.insert(dims.end(), t.dims().begin(), t.dims().end());
          term = p.Const(Transposed(t.Reshaped(dims), {1, 0}));
        }
        return p("Gemm", {m[b], m[a], term}, std::move(attrs));
      },
      .fires_on = {R"(graph g(x: f32[N,3], z: f32[3,4]) -> (y) { k = const f32[4] {1,2,3,4}
                     t = Gemm(x, z, k) {beta=0.5}  y = Transpose(t) })",
                   R"(graph g(x: f32[3,N], z: f32[3,4]) -> (y) { t = Gemm(x, z) {transA=1}
                     y = Transpose(t) {perm=[1,0]} })"},
      .silent_on = {{R"(graph g(x: f32[N,3], z: f32[3,4], k: f32[4]) -> (y) { t = Gemm(x, z, k)
                       y = Transpose(t) })",
                     "'k' is not a constant"},
                    {R"(graph g(x: f32[N,3], z: f32[3,4]) -> (y, t) { t = Gemm(x, z)
                       y = Transpose(t) })",
                     "'t' has other uses"}},
  };
}

Rule ViewTransposes() {
  Pattern x = Any(), root = Op("Transpose", x);
  return {
      .name = "view-transposes",
      .doc = "Transpose(x) that only moves axes of extent 1 => Reshape(x)",
      .match = root,
      .when = {{"an order of axes that moves only extents of 1",
                [=](const Match& m) {
                  int64_t last = -1;
                  for (const int64_t axis : PermOf(m.node(root))) {
                    if (StaticDim(*m[x], static_cast<int>(axis)) == 1) continue;
                    if (axis < last) return false;
                    last = axis;
                  }
                  return RankOf(*m[x]) > 0;
                }}},
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto target = ReshapeTarget(m[x]->shape(), m[root]->shape());
        if (!target) return InvalidModel("needs a shape that a constant can say");
        return b("Reshape", {m[x], b.Ints(*target)});
      },
      .fires_on = {R"(graph g(x: f32[N,1,3,4]) -> (y) { y = Transpose(x) {perm=[0,2,1,3]} })",
                   R"(graph g(x: f32[1,N,4,1]) -> (y) { y = Transpose(x) {perm=[3,1,0,2]} })"},
      .silent_on = {{R"(graph g(x: f32[N,2,2,4]) -> (y) { y = Transpose(x) {perm=[0,2,1,3]} })",
                     "an order of axes that moves only extents of 1"},
                    {R"(graph g(x: f32[1,N,S]) -> (y) { y = Transpose(x) {perm=[1,2,0]} })",
                     "a shape that a constant can say"}},
  };
}

}  // namespace infer
