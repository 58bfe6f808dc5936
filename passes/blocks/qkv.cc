/// Products of one value with three constants as one product: a larger one, which machines like
/// better, and one read of the value. A block, not a fusion of level 2: quantization gives the
/// results of queries, keys and values ranges of their own.
#include <algorithm>

#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// [a | b | c] along the last axis.
Tensor SideBySide(const std::vector<const Tensor*>& parts) {
  Dims dims = parts[0]->dims();
  int64_t width = 0;
  for (const Tensor* t : parts) width += t->dim(-1);
  dims.back() = width;
  Tensor out(parts[0]->dtype(), dims);
  int64_t begin = 0;
  for (const Tensor* t : parts) {
    const int64_t n = t->dim(-1);
    for (int64_t i = 0; i < t->num_elements(); ++i)
      out.Set(i / n * width + begin + i % n, t->At(i));
    begin += n;
  }
  return out;
}

struct Projections {
  explicit Projections(bool biased) : biased(biased) {
    for (int i = 0; i < 3; ++i) {
      weights.push_back(Constant());
      biases.push_back(Constant());
      products.push_back(Op("MatMul", x, weights.back()));
      roots.push_back(biased ? Op("Add", products.back(), biases.back()) : products.back());
    }
  }
  bool biased;
  Pattern x = Any();
  std::vector<Pattern> weights, biases, products, roots;
};

Result<Value*> BuildMerged(const Match& m, const Projections& p, PatchBuilder& b) {
  std::vector<const Tensor*> weights, biases;
  std::vector<int64_t> widths;
  for (size_t i = 0; i < 3; ++i) {
    const Tensor& w = m.tensor(p.weights[i]);
    if (w.rank() != 2 || w.dtype() != m[p.x]->dtype() || RankOf(*m[p.x]) < 2)
      return InvalidModel("needs matrices of weights");
    if (!m[p.weights[i]]->has_one_use()) return InvalidModel("needs weights that nobody shares");
    weights.push_back(&w);
    widths.push_back(w.dim(1));
    if (!p.biased) continue;
    const Tensor& bias = m.tensor(p.biases[i]);
    if (bias.rank() != 1 || bias.dim(0) != w.dim(1))
      return InvalidModel("needs one bias per column");
    biases.push_back(&bias);
  }
  INFER_ASSIGN(Value * y, b("MatMul", {m[p.x], b.Const(SideBySide(weights))}));
  if (p.biased) {
    INFER_ASSIGN(y, b("Add", {y, b.Const(SideBySide(biases))}));
  }
  INFER_ASSIGN(Node * split,
               b.Add("Split", {y, b.Ints(widths)}, {{"axis", int64_t{-1}}}, {.num_outputs = 3}));
  for (size_t i = 1; i < 3; ++i) b.Replace(m[p.roots[i]], split->output(i));
  return split->output();
}

constexpr const char* kThree = R"(graph g(x: f32[N,S,4]) -> (q, k, v) {
  a = const f32[4,6] ~1  b = const f32[4,2] ~2  c = const f32[4,3] ~3  )";

}  // namespace

Rule MergeProjections() {
  const Projections p(false);
  return {
      .name = "merge-projections",
      .doc = "MatMul(x, a), MatMul(x, b), MatMul(x, c) => Split(MatMul(x, [a | b | c]))",
      .match = p.roots[0],
      .also = {p.roots[1], p.roots[2]},
      .build = [=](const Match& m, PatchBuilder& b) { return BuildMerged(m, p, b); },
      .fires_on = {std::string(kThree) + "q = MatMul(x, a)  k = MatMul(x, b)  v = MatMul(x, c) }"},
      .silent_on = {{std::string(kThree) + "q = MatMul(x, a)  k = MatMul(x, b)  v = MatMul(x, a) }",
                     "weights that nobody shares"},
                    {std::string(kThree) + "q = MatMul(x, a)  k = MatMul(x, b)  v = Neg(x) }",
                     "no further use of 'x' fits"}},
  };
}

Rule MergeBiasedProjections() {
  const Projections p(true);
  return {
      .name = "merge-biased-projections",
      .doc =
          "MatMul(x, a) + d, MatMul(x, b) + e, MatMul(x, c) + f => "
          "Split(MatMul(x, [a | b | c]) + [d | e | f])",
      .match = p.roots[0],
      .also = {p.roots[1], p.roots[2]},
      .build = [=](const Match& m, PatchBuilder& b) { return BuildMerged(m, p, b); },
      .fires_on = {std::string(kThree) + R"(d = const f32[6] ~4  e = const f32[2] ~5
                     f = const f32[3] ~6  t = MatMul(x, a)  u = MatMul(x, b)  w = MatMul(x, c)
                     q = Add(t, d)  k = Add(e, u)  v = Add(w, f) })"},
      .silent_on = {{std::string(kThree) + R"(d = const f32[] {1}  e = const f32[2] ~5
                       f = const f32[3] ~6  t = MatMul(x, a)  u = MatMul(x, b)  w = MatMul(x, c)
                       q = Add(t, d)  k = Add(e, u)  v = Add(w, f) })",
                     "one bias per column"}},
  };
}

}  // namespace infer
