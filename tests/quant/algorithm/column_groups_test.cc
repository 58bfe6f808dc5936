#include "quant/algorithm/column_groups.h"

#include "lib/ir/verify.h"
#include "quant/recipe/held_out.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

using testing::ElementsAre;

TEST(GroupColumns, CutsWhereTheErrorIsLeast) {
  const std::vector<double> lo = {0, -1, 0, -50, 0, -1}, hi = {1, 1, 40, 0, 1, 0};
  const std::vector<double> one(6, 1.0);
  EXPECT_THAT(GroupColumns(lo, hi, one, {2, 0.5}), ElementsAre(0, 0, 0, 1, 0, 0));
  // Two outliers of opposite sides are worth a group each, and then nothing is.
  EXPECT_THAT(GroupColumns(lo, hi, one, {3, 0.5}), ElementsAre(0, 0, 1, 2, 0, 0));
  EXPECT_THAT(GroupColumns(lo, hi, one, {6, 0.5}), ElementsAre(0, 0, 1, 2, 0, 0));
  EXPECT_THAT(GroupColumns(lo, hi, one, {1, 0.5}), ElementsAre(0, 0, 0, 0, 0, 0));
  // What is multiplied with nothing may have any range.
  const std::vector<double> energy = {1, 1, 0, 0, 1, 1};
  EXPECT_THAT(GroupColumns(lo, hi, energy, {6, 0.5}), ElementsAre(0, 0, 1, 1, 0, 0));
}

/// By brute force over all cuts of the sorted columns.
TEST(GroupColumns, NoOtherCutIsBetter) {
  Random random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> lo, hi, energy;
    for (int c = 0; c < 9; ++c) {
      const double size = std::exp(2 * random.Normal());
      lo.push_back(-size * random.Uniform());
      hi.push_back(size * random.Uniform());
      energy.push_back(random.Uniform());
    }
    const auto error = [&](const std::vector<int>& group) {
      double sum = 0;
      for (int k = 0; k < 3; ++k) {
        Interval range;
        double weight = 0;
        for (size_t c = 0; c < 9; ++c) {
          if (group[c] != k) continue;
          range = range.Union({lo[c], hi[c]});
          weight += energy[c];
        }
        sum += weight * (range.hi - range.lo) * (range.hi - range.lo);
      }
      return sum;
    };
    const double found = error(GroupColumns(lo, hi, energy, {3, 1}));
    std::vector<size_t> order = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return hi[a] - lo[a] < hi[b] - lo[b]; });
    for (size_t i = 1; i < 9; ++i)
      for (size_t j = i + 1; j < 9; ++j) {
        std::vector<int> group(9);
        for (size_t k = 0; k < 9; ++k) group[order[k]] = k < i ? 0 : k < j ? 1 : 2;
        EXPECT_LE(found, error(group) * (1 + 1e-12));
      }
  }
}

/// A value with two columns of 60 times the others, read by every spelling of a product.
Graph Outliers() {
  return MustParse(R"(
graph g(x: f32[4,8]) -> (a: f32[4,4], b: f32[4,4], c: f32[4,4], n: f32[4,8]) {
  s = const f32[8] {1, 1, 60, 1, 1, 1, 40, 1}
  k = const f32[4] {1, -1, 0.5, 2}
  u = const f32[8,4] ~1
  v = const f32[8,4] ~2
  w = const f32[4,8] ~3
  m = Mul(x, s)
  n = Tanh(x)
  p = MatMul(m, u)
  q = Add(p, k)
  a = Relu(q)
  b = MatMul(m, v)
  c = Gemm(m, w, k) {alpha = 0.5, beta = 2, transB = 1}
}
)");
}

HeldOutError ErrorOf(StaticModel& m, const Graph& g, const Samples& fit, const HeldOut& held) {
  const auto plan = PlanQuantization(m.graph, g, m.scheme);
  EXPECT_TRUE(plan.ok());
  m.ranges = *Calibrate(m.graph, ObservedValues(*plan), fit, *MakeReferenceBackend());
  const auto r = RewriteStatic(m, g, fit.count);
  EXPECT_TRUE(r.ok()) << r.status().message();
  return *held.Measure(r->graph);
}

TEST(SplitColumnGroups, OutliersGetAScaleOfTheirOwn) {
  const Graph g = Outliers();
  const Samples fit = NormalSamples(g, 16, 1);
  const auto backend = MakeReferenceBackend();
  const auto held = HeldOut::Make(g, fit, *backend, {});  // nothing is cut
  StaticModel plain{g.Clone(), {}, {}}, split{g.Clone(), {}, {}};
  const auto r = SplitColumnGroups(split, g, fit, {backend.get()}, {2, 0.5});
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->values, 1);
  EXPECT_EQ(r->products, 3);
  EXPECT_EQ(r->parts, 6);
  ASSERT_TRUE(Verify(split.graph).ok()) << Verify(split.graph).message();
  EXPECT_LT(held->Measure(split.graph)->worst, 1e-12);
  EXPECT_LT(ErrorOf(split, g, fit, *held).noise, 0.5 * ErrorOf(plain, g, fit, *held).noise);
  // Each part is rounded by itself, behind the f32 columns.
  const auto written = RewriteStatic(split, g, 16);
  ASSERT_TRUE(written.ok());
  std::vector<float> scales;
  int products = 0;
  for (const auto& n : written->graph.nodes()) {
    if (n->Is("QuantizeLinear")) {
      ASSERT_TRUE(n->input(0)->producer());
      EXPECT_EQ(n->input(0)->producer()->op(), "Gather");
      scales.push_back(n->input(1)->constant()->data<float>()[0]);
    }
    if (!n->Is("MatMul") && !n->Is("Gemm")) continue;
    ++products;
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(n->input(i)->producer()->op(), "DequantizeLinear");
  }
  EXPECT_EQ(products, 6);
  ASSERT_EQ(scales.size(), 2u);
  EXPECT_GT(scales[1] / scales[0], 10);
}

TEST(SplitColumnGroups, EvenColumnsAreLeft) {
  const Graph g = MustParse(R"(
graph g(x: f32[4,8]) -> (y: f32[4,4]) {
  w = const f32[8,4] ~1
  y = MatMul(x, w)
}
)");
  StaticModel m{g.Clone(), {}, {}};
  const auto backend = MakeReferenceBackend();
  const auto r = SplitColumnGroups(m, g, NormalSamples(g, 16, 1), {backend.get()}, {4, 0.5});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->values, 0);
  EXPECT_EQ(Print(m.graph), Print(g));
}

}  // namespace
}  // namespace infer
