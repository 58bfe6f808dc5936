#include "quant/recipe/recipe.h"

#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/recipe/keep_float.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

std::string Weights(int64_t n, uint64_t seed, double scale = 0.3) {
  Random random(seed);
  std::string text;
  for (int64_t i = 0; i < n; ++i) text += Cat(i ? ", " : "", scale * random.Normal());
  return text;
}

/// Three convolutions; the second's result has channels of very different size.
Graph Net() {
  return MustParse(Cat(R"(
graph g(x: f32[1,4,6,6]) -> (y: f32[1,8,6,6]) {
  w = const f32[8,4,1,1] {)",
                       Weights(32, 1), R"(}
  v = const f32[8,8,1,1] {)",
                       Weights(56, 2), ", 50, 60, 70, 80, -50, 30, 20, 90", R"(}
  u = const f32[8,8,1,1] {)",
                       Weights(64, 3), R"(}
  c = Conv(x, w)
  r = Relu(c)
  d = Conv(r, v)
  s = Tanh(d)
  y = Conv(s, u)
}
)"));
}

RecipeReport MustRun(Graph& g, const Samples& samples, Recipe recipe) {
  RecipeOptions o;
  o.recipe = recipe;
  o.quantize.prepare = false;
  auto r = QuantizeByRecipe(g, samples, *MakeReferenceBackend(), o);
  EXPECT_TRUE(r.ok()) << r.status().message();
  EXPECT_TRUE(Verify(g).ok()) << Verify(g).message();
  return r.ok() ? *std::move(r) : RecipeReport();
}

TEST(Recipe, KeepsOnlyWhatLowersTheHeldOutError) {
  for (const Recipe recipe : {Recipe::kFast, Recipe::kBalanced, Recipe::kBest}) {
    Graph g = Net();
    const Samples samples = NormalSamples(g, 40, 1);
    const RecipeReport r = MustRun(g, samples, recipe);
    ASSERT_FALSE(r.steps.empty());
    EXPECT_EQ(r.steps[0].name, "calibrate");
    EXPECT_EQ(r.fit_samples + r.held_out_samples, 40);
    double db = r.steps[0].db_after;
    for (size_t i = 1; i < r.steps.size(); ++i) {
      EXPECT_EQ(r.steps[i].db_before, db) << r.steps[i].name;
      if (!r.steps[i].kept) continue;
      EXPECT_GT(r.steps[i].db_after, db) << r.steps[i].name;
      db = r.steps[i].db_after;
    }
  }
}

TEST(Recipe, NoneIsPlainCalibration) {
  Graph a = Net(), b = Net();
  const Samples samples = NormalSamples(a, 12, 1);
  MustRun(a, samples, Recipe::kNone);
  QuantizeOptions o;
  o.prepare = false;
  ASSERT_TRUE(QuantizeStatic(b, samples, *MakeReferenceBackend(), o).ok());
  EXPECT_EQ(Print(a), Print(b));
}

TEST(Recipe, FailsAsPlainCalibrationDoes) {
  Graph g = MustParse("graph g(x: f32[2]) -> (y: f32[2]) { y = Relu(x) }");
  const auto backend = MakeReferenceBackend();
  const auto r = QuantizeByRecipe(g, NormalSamples(g, 4, 1), *backend);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.status().code(), Code::kUnsupported);
  Graph net = Net();
  EXPECT_FALSE(QuantizeByRecipe(net, InMemory({}), *backend).ok());
}

/// d's rounding is what hurts: its large channel leaves the others few steps, and the next layer
/// reads all of them.
TEST(KeepFloat, TheGuiltyLayerReturnsToFloat) {
  const Graph g = Net();
  const Samples samples = NormalSamples(g, 16, 1);
  const auto backend = MakeReferenceBackend();
  StaticModel m{g.Clone(), {}, {}};
  {
    const auto plan = PlanQuantization(m.graph, g, m.scheme);
    ASSERT_TRUE(plan.ok());
    m.ranges = *Calibrate(m.graph, ObservedValues(*plan), samples, *backend);
  }
  const auto held = HeldOut::Make(g, NormalSamples(g, 8, 2), *backend, {});
  ASSERT_TRUE(held.ok());
  const auto before = held->Measure(RewriteStatic(m, g, 16)->graph);
  ASSERT_TRUE(before.ok());
  KeepFloatOptions options;
  options.target_db = Decibels(before->worst) + 1;
  const auto found = FindLayersToKeep(m, g, *held, options);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_TRUE(found->reached);
  EXPECT_EQ(found->keep.size(), 1u);
  EXPECT_TRUE(found->keep.contains("d"));
  EXPECT_GT(Decibels(found->error.worst), options.target_db);
  m.scheme.keep = found->keep;
  const auto after = RewriteStatic(m, g, 16);
  ASSERT_TRUE(after.ok());
  for (const QuantizedLayer& l : after->report.layers) {
    if (l.name != "d") continue;
    EXPECT_THAT(l.reason, testing::HasSubstr("alone it would leave"));
  }
}

TEST(HeldOut, LessIsNotTheLuckOfOneSample) {
  HeldOutError a{1.0, 1.0, {1, 1, 1, 1}}, b{0.9, 0.9, {0.9, 0.9, 0.9, 0.9}};
  EXPECT_TRUE(IsLess(b, a));
  EXPECT_FALSE(IsLess(a, b));
  EXPECT_FALSE(IsLess(a, a));
  const HeldOutError lucky{0.9, 0.9, {0.0, 1.2, 1.2, 1.2}};
  EXPECT_FALSE(IsLess(lucky, a));
}

TEST(HeldOut, MeasuresNoiseOverSignal) {
  const Graph g =
      MustParse("graph g(x: f32[2]) -> (y: f32[2]) { k = const f32[] {2}\n y = Mul(x, k) }");
  const Graph h =
      MustParse("graph g(x: f32[2]) -> (y: f32[2]) { k = const f32[] {2.2}\n y = Mul(x, k) }");
  const auto backend = MakeReferenceBackend();
  const auto held = HeldOut::Make(g, NormalSamples(g, 8, 1), *backend, {});
  ASSERT_TRUE(held.ok());
  const auto same = held->Measure(g), other = held->Measure(h);
  ASSERT_TRUE(same.ok() && other.ok());
  EXPECT_EQ(same->noise, 0);
  EXPECT_NEAR(other->noise, 0.01, 1e-6);
  EXPECT_NEAR(Decibels(other->worst), 20, 1e-3);
  double mean = 0;
  for (const double s : other->by_sample) mean += s / 8;
  EXPECT_NEAR(mean, other->noise, 1e-9);
}

}  // namespace
}  // namespace infer
