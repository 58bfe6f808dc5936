#include "quant/algorithm/bias_correction.h"

#include "lib/ir/eval.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

/// Inputs of mean 3, so that the rounding of weights shifts means.
Samples Shifted(const Graph& g, int64_t count, uint64_t seed) {
  const Samples normal = NormalSamples(g, count, seed);
  std::vector<std::vector<Datum>> runs;
  for (int64_t i = 0; i < count; ++i) {
    auto run = *normal.get(i);
    Tensor t = run[0].tensor().Clone();
    for (float& x : t.mutable_data<float>()) x = 3 + x / 4;
    runs.push_back({Datum(std::move(t))});
  }
  return InMemory(std::move(runs));
}

std::string Weights(int64_t n, uint64_t seed) {
  Random random(seed);
  std::string text;
  for (int64_t i = 0; i < n; ++i) text += Cat(i ? ", " : "", i % 16 ? random.Normal() : 40.0);
  return text;
}

/// Channel means of output 0: quantized - f32, squared and summed.
double MeanShift(const StaticModel& m, const Graph& g, const Samples& samples) {
  const auto backend = MakeReferenceBackend();
  const auto q = RewriteStatic(m, g, samples.count);
  EXPECT_TRUE(q.ok()) << q.status().message();
  std::vector<double> shift;
  for (int64_t i = 0; i < samples.count; ++i) {
    const auto in = samples.get(i);
    const auto a = Evaluate(g, *in), b = Evaluate(q->graph, *in);
    EXPECT_TRUE(a.ok() && b.ok());
    const Tensor &x = (*a)[0].tensor(), &y = (*b)[0].tensor();
    const size_t channels = static_cast<size_t>(x.dim(1));
    const size_t inner = static_cast<size_t>(x.num_elements()) / channels;
    shift.resize(channels);
    for (size_t k = 0; k < channels * inner; ++k)
      shift[k / inner] +=
          static_cast<double>(y.data<float>()[k]) - static_cast<double>(x.data<float>()[k]);
  }
  double sum = 0;
  for (const double s : shift) sum += s * s;
  return sum;
}

StaticModel Calibrated(const Graph& g, const Samples& samples) {
  StaticModel m{g.Clone(), {}, {}};
  m.scheme.per_channel = false;
  m.scheme.weights.reduce_range = true;
  const auto plan = PlanQuantization(m.graph, g, m.scheme);
  EXPECT_TRUE(plan.ok());
  const auto backend = MakeReferenceBackend();
  auto table = Calibrate(m.graph, ObservedValues(*plan), samples, *backend);
  EXPECT_TRUE(table.ok()) << table.status().message();
  m.ranges = *std::move(table);
  return m;
}

void ExpectLessShift(const std::string& text) {
  const Graph g = MustParse(text);
  const Samples fit = Shifted(g, 16, 1), other = Shifted(g, 16, 2);
  const auto backend = MakeReferenceBackend();
  const StaticModel plain = Calibrated(g, fit);
  const double before = MeanShift(plain, g, other);
  StaticModel fast{plain.graph.Clone(), plain.ranges, plain.scheme};
  const auto n = CorrectBiasFast(fast, g, fit, {backend.get()});
  ASSERT_TRUE(n.ok()) << n.status().message();
  EXPECT_GT(*n, 0);
  EXPECT_TRUE(Verify(fast.graph).ok()) << Verify(fast.graph).message();
  EXPECT_LT(MeanShift(fast, g, other), 0.5 * before) << text;
  StaticModel full{plain.graph.Clone(), plain.ranges, plain.scheme};
  const auto k = CorrectBiasSequential(full, g, fit, {backend.get()});
  ASSERT_TRUE(k.ok()) << k.status().message();
  EXPECT_GT(*k, 0);
  EXPECT_TRUE(Verify(full.graph).ok()) << Verify(full.graph).message();
  EXPECT_LT(MeanShift(full, g, other), 0.3 * before) << text;
}

TEST(BiasCorrection, TakesTheShiftBack) {
  ExpectLessShift(Cat(R"(
graph g(x: f32[1,4,4,4]) -> (y: f32[1,4,4,4]) {
  w = const f32[8,4,1,1] {)",
                      Weights(32, 1), R"(}
  b = const f32[8] {1, 2, 3, 4, 5, 6, 7, 8}
  v = const f32[4,8,1,1] {)",
                      Weights(32, 2), R"(}
  c = Conv(x, w, b)
  r = Relu(c)
  y = Conv(r, v)
}
)"));
}

/// A table of positions through a layer of its own, where folding left it: nothing to observe, and
/// no reason to give up the layers beside it.
TEST(BiasCorrection, LayersOfConstantsAreLeftAlone) {
  ExpectLessShift(Cat(R"(
graph g(x: f32[4,8]) -> (y: f32[4,8]) {
  w = const f32[8,8] {)",
                      Weights(64, 1), R"(}
  v = const f32[8,8] {)",
                      Weights(64, 2), R"(}
  t = const f32[4,8] ~3
  b = const f32[8] {1, 2, 3, 4, 5, 6, 7, 8}
  p = MatMul(t, v)
  m = Gemm(x, w, b)
  y = Add(m, p)
}
)"));
}

TEST(BiasCorrection, GroupsGemmAndTheAddOfAMatMul) {
  ExpectLessShift(Cat(R"(
graph g(x: f32[1,4,4,4]) -> (y: f32[1,4,4,4]) {
  w = const f32[8,2,1,1] {)",
                      Weights(16, 1), R"(}
  v = const f32[4,4,1,1] {)",
                      Weights(16, 2), R"(}
  c = Conv(x, w) {group = 2}
  y = Conv(c, v) {group = 2}
}
)"));
  ExpectLessShift(Cat(R"(
graph g(x: f32[4,8]) -> (y: f32[4,8]) {
  w = const f32[8,8] {)",
                      Weights(64, 1), R"(}
  b = const f32[8] {1, 2, 3, 4, 5, 6, 7, 8}
  v = const f32[8,8] {)",
                      Weights(64, 2), R"(}
  m = MatMul(x, w)
  a = Add(m, b)
  y = Gemm(a, v) {alpha = 0.5, transB = 1}
}
)"));
}

}  // namespace
}  // namespace infer
