#include "quant/algorithm/smooth.h"

#include "lib/ir/eval.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/recipe/held_out.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

/// A normalization of 8 columns, one of which is 60 times the others, read by two products.
Graph Outlier(std::string_view norm, std::string_view more = "") {
  return MustParse(Cat(R"(
graph g(x: f32[4,8]) -> (y: f32[4,4], z: f32[4,4]) {
  s = const f32[8] {1, 1, 60, 1, 1, 1, 1, 1}
  b = const f32[8] {0, 0.5, 1, 0, 0, -0.5, 0, 0}
  v = const f32[8,4] ~1
  w = const f32[8,4] ~2
  )",
                       norm, "\n  y = MatMul(n, v)\n  z = MatMul(n, w)\n", more, "}\n"));
}

HeldOutError ErrorOf(StaticModel& m, const Graph& g, const Samples& fit, const Samples& held) {
  const auto backend = MakeReferenceBackend();
  const auto plan = PlanQuantization(m.graph, g, m.scheme);
  EXPECT_TRUE(plan.ok());
  m.ranges = *Calibrate(m.graph, ObservedValues(*plan), fit, *backend);
  const auto h = HeldOut::Make(g, held, *backend, {});
  const auto r = RewriteStatic(m, g, fit.count);
  EXPECT_TRUE(r.ok()) << r.status().message();
  return *h->Measure(r->graph);
}

TEST(SmoothLayers, OutlierColumnsGoIntoTheWeights) {
  for (const char* norm : {"n = LayerNormalization(x, s, b)", "n = RMSNormalization(x, s)",
                           "m = Mul(x, s)\n  n = Add(m, b)", "n = Mul(s, x)"}) {
    const Graph g = Outlier(norm);
    const Samples fit = NormalSamples(g, 16, 1), held = NormalSamples(g, 16, 2);
    const auto backend = MakeReferenceBackend();
    StaticModel plain{g.Clone(), {}, {}}, smooth{g.Clone(), {}, {}};
    const auto n = SmoothLayers(smooth, g, fit, {backend.get()});
    ASSERT_TRUE(n.ok()) << n.status().message();
    EXPECT_EQ(*n, 1) << norm;
    EXPECT_TRUE(Verify(smooth.graph).ok());
    const auto exact = HeldOut::Make(g, held, *backend, {})->Measure(smooth.graph);
    ASSERT_TRUE(exact.ok());
    EXPECT_LT(exact->worst, 1e-12) << norm;
    EXPECT_LT(ErrorOf(smooth, g, fit, held).noise, ErrorOf(plain, g, fit, held).noise) << norm;
  }
}

TEST(SmoothLayers, AnotherReaderForbids) {
  const Graph g = MustParse(R"(
graph g(x: f32[4,8]) -> (y: f32[4,4], z: f32[4,8]) {
  s = const f32[8] {1, 1, 60, 1, 1, 1, 1, 1}
  v = const f32[8,4] ~1
  n = Mul(x, s)
  y = MatMul(n, v)
  z = Tanh(n)
}
)");
  StaticModel m{g.Clone(), {}, {}};
  const auto backend = MakeReferenceBackend();
  const auto n = SmoothLayers(m, g, NormalSamples(g, 8, 1), {backend.get()});
  ASSERT_TRUE(n.ok());
  EXPECT_EQ(*n, 0);
}

}  // namespace
}  // namespace infer
