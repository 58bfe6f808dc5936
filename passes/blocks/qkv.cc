/// Products of one value with three constants as one product: a larger one, which machines like
/// better, and one read of the value. A block, not a fusion of level 2: quantization gives the
/// results of queries, keys and values ranges of their own.
#include <algorithm>

#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// [a | b | c] along `axis`.
Tensor SideBySide(const std::vector<const Tensor*>& parts, int axis) {
  Dims dims = parts[0]->dims();
  const auto at = static_cast<size_t>(axis < 0 ? axis + parts[0]->rank() : axis);
  int64_t inner = 1, width = 0;  // of one index, of all parts
  for (size_t i = at + 1; i < dims.size(); ++i) inner *= dims[i];
  for (const Tensor* t : parts) width += t->dim(axis);
  dims[at] = width;
  Tensor out(parts[0]->dtype(), dims);
  int64_t begin = 0;
  for (const Tensor* t : parts) {
    const int64_t n = t->dim(axis) * inner;
    for (int64_t i = 0; i < t->num_elements(); ++i)
      out.Set(i / n * width * inner + begin + i % n, t->At(i));
    begin += n;
  }
  return out;
}

/// The parts of `y` along its last axis in the place of `roots`.
Result<Value*> SplitInto(const Match& m, const std::vector<Pattern>& roots, Value* y,
                         const std::vector<int64_t>& widths, PatchBuilder& b) {
  INFER_ASSIGN(Node * split, b.Add("Split", {y, b.Ints(widths)}, {{"axis", int64_t{-1}}},
                                   {.num_outputs = roots.size()}));
  for (size_t i = 1; i < roots.size(); ++i) b.Replace(m[roots[i]], split->output(i));
  return split->output();
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
  INFER_ASSIGN(Value * y, b("MatMul", {m[p.x], b.Const(SideBySide(weights, -1))}));
  if (p.biased) {
    INFER_ASSIGN(y, b("Add", {y, b.Const(SideBySide(biases, -1))}));
  }
  return SplitInto(m, p.roots, y, widths, b);
}

/// The same of matrices, as Gemm.
struct GemmProjections {
  GemmProjections() {
    for (int i = 0; i < 3; ++i) {
      weights.push_back(Constant());
      biases.push_back(Constant().OrOmitted());
      roots.push_back(Op("Gemm", x, weights.back(), biases.back())
                          .With("transA", int64_t{0})
                          .With("alpha", 1.0f)
                          .With("beta", 1.0f));
    }
  }
  Pattern x = Any();
  std::vector<Pattern> weights, biases, roots;
};

Result<Value*> BuildMerged(const Match& m, const GemmProjections& p, PatchBuilder& b) {
  if (!IsFloat(m[p.x]->dtype())) return InvalidModel("needs floating point numbers");
  const AttrMap& attrs = m.node(p.roots[0]).attrs();
  const bool biased = m.Has(p.biases[0]);
  const bool transposed = m.node(p.roots[0]).Attr<int64_t>("transB") != 0;
  const int columns = transposed ? 0 : 1;
  std::vector<const Tensor*> weights, biases;
  std::vector<int64_t> widths;
  for (size_t i = 0; i < 3; ++i) {
    if ((m.node(p.roots[i]).Attr<int64_t>("transB") != 0) != transposed)
      return InvalidModel("needs weights that are transposed in all products, or in none");
    if (!m[p.weights[i]]->has_one_use()) return InvalidModel("needs weights that nobody shares");
    weights.push_back(&m.tensor(p.weights[i]));
    widths.push_back(weights.back()->dim(columns));
    if (m.Has(p.biases[i]) != biased)
      return InvalidModel("needs biases at all products, or at none");
    if (!biased) continue;
    const Tensor& bias = m.tensor(p.biases[i]);
    if (bias.dims() != Dims{widths.back()}) return InvalidModel("needs one bias per column");
    biases.push_back(&bias);
  }
  std::vector<Value*> operands = {m[p.x], b.Const(SideBySide(weights, columns))};
  if (biased) operands.push_back(b.Const(SideBySide(biases, 0)));
  INFER_ASSIGN(Value * y, b("Gemm", std::move(operands), attrs));
  return SplitInto(m, p.roots, y, widths, b);
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

Rule MergeGemmProjections() {
  const GemmProjections p;
  const std::string three = R"(graph g(x: f32[N,4]) -> (q, k, v) { a = const f32[4,6] ~1
    b = const f32[4,2] ~2  c = const f32[4,3] ~3  t = const f32[2,4] ~7
    d = const f32[6] ~4  e = const f32[2] ~5  f = const f32[3] ~6  one = const f32[] {1} )";
  return {
      .name = "merge-gemm-projections",
      .doc =
          "Gemm(x, a, d), Gemm(x, b, e), Gemm(x, c, f) => Split(Gemm(x, [a | b | c], [d | e | f]))",
      .match = p.roots[0],
      .also = {p.roots[1], p.roots[2]},
      .build = [=](const Match& m, PatchBuilder& b) { return BuildMerged(m, p, b); },
      .fires_on = {three + "q = Gemm(x, a, d)  k = Gemm(x, b, e)  v = Gemm(x, c, f) }",
                   three + "q = Gemm(x, a)  k = Gemm(x, b)  v = Gemm(x, c) }",
                   R"(graph g(x: f32[N,4]) -> (q, k, v) { a = const f32[6,4] ~1
                     b = const f32[2,4] ~2  c = const f32[3,4] ~3  d = const f32[6] ~4
                     e = const f32[2] ~5  f = const f32[3] ~6  q = Gemm(x, a, d) {transB=1}
                     k = Gemm(x, b, e) {transB=1}  v = Gemm(x, c, f) {transB=1} })"},
      .silent_on = {{three + "q = Gemm(x, a, d)  k = Gemm(x, b, e)  v = Gemm(x, a, d) }",
                     "weights that nobody shares"},
                    {three + "q = Gemm(x, a, d)  k = Gemm(x, b)  v = Gemm(x, c, f) }",
                     "biases at all products"},
                    {three + "q = Gemm(x, a, d)  k = Gemm(x, t, e) {transB=1}  v = Gemm(x, c, f) }",
                     "transposed in all products"},
                    {three + "q = Gemm(x, a, one)  k = Gemm(x, b, e)  v = Gemm(x, c, f) }",
                     "one bias per column"},
                    {three +
                         "q = Gemm(x, a, d)  k = Gemm(x, b, e) {alpha=2.0}  v = Gemm(x, c, f) }",
                     "'k' is not made with alpha=1"},
                    {R"(graph g(x: i32[2,2]) -> (q, k, v) { a = const i32[2,2] {1,2,3,4}
              b = const i32[2,1] {5,6}  c = const i32[2,1] {7,8}
              q = Gemm(x, a)  k = Gemm(x, b)  v = Gemm(x, c) })",
                     "floating point numbers"}},
  };
}

}  // namespace infer
