#include "quant/recipe/recipe.h"

#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/recipe/keep_float.h"
#include "quant/recipe/subset_search.h"
#include "runtime/reference/backend.h"
#include "tests/quant/recipe/calibrated.h"

namespace infer {
namespace {

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
      if (r.steps[i].name != "int8-weights") {
        EXPECT_GT(r.steps[i].db_after, db) << r.steps[i].name;
      }
      db = r.steps[i].db_after;
    }
  }
}

/// Samples that scales were fitted to always judge well of them.
TEST(Recipe, HoldsOutOfFewSamplesToo) {
  for (const auto& [count, held] :
       std::vector<std::pair<int, int>>{{3, 1}, {4, 1}, {8, 2}, {9, 3}}) {
    Graph g = Net();
    const RecipeReport r = MustRun(g, NormalSamples(g, count, 1), Recipe::kBalanced);
    EXPECT_TRUE(r.is_held_out) << count;
    EXPECT_EQ(r.held_out_samples, held) << count;
    EXPECT_EQ(r.fit_samples, count - held) << count;
  }
}

TEST(Recipe, ScalesNothingByRangesThatNoOtherSampleJudges) {
  const auto steps = [](int samples) {
    Graph g = MustParse(Cat(R"(graph g(x: f32[4,8]) -> (y: f32[4,8]) {
  s = const f32[8] {1, 20, 1, 3, 0.5, 9, 1, 1}  b = const f32[8] {0, 1, 0, 0, 2, 0, 0, 0}
  w = const f32[8,8] {)",
                            Weights(64, 1), R"(}
  n = LayerNormalization(x, s, b)  m = MatMul(n, w)  y = Relu(m) })"));
    const RecipeReport r = MustRun(g, NormalSamples(g, samples, 1), Recipe::kBalanced);
    EXPECT_EQ(r.is_held_out, samples > 2);
    std::vector<std::string> names;
    for (const RecipeStep& s : r.steps) names.push_back(s.name);
    return names;
  };
  EXPECT_THAT(steps(3), testing::Contains("smooth"));
  for (const int few : {1, 2}) EXPECT_THAT(steps(few), testing::Not(testing::Contains("smooth")));
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
  const auto backend = MakeReferenceBackend();
  StaticModel m = Calibrated(g, NormalSamples(g, 16, 1), *backend);
  const auto held = HeldOut::Make(g, NormalSamples(g, 8, 2), *backend, {});
  ASSERT_TRUE(held.ok());
  const auto before = held->Measure(RewriteStatic(m, g, 16)->graph);
  ASSERT_TRUE(before.ok());
  KeepFloatOptions options;
  options.target.db = Decibels(before->worst) + 1;
  const auto found = FindLayersToKeep(m, g, *held, options);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_TRUE(found->reached);
  EXPECT_EQ(found->keep.size(), 1u);
  EXPECT_TRUE(found->keep.contains("d"));
  EXPECT_GT(Decibels(found->error.sure_worst), options.target.db);
  m.scheme.keep = found->keep;
  const auto after = RewriteStatic(m, g, 16);
  ASSERT_TRUE(after.ok());
  for (const QuantizedLayer& l : after->report.layers) {
    if (l.name != "d") continue;
    EXPECT_THAT(l.reason, testing::HasSubstr("alone it would leave"));
  }
}

/// A target that no layer keeps leaves one of them integer.
TEST(KeepFloat, NeverAll) {
  const Graph g = Net();
  const auto backend = MakeReferenceBackend();
  StaticModel m = Calibrated(g, NormalSamples(g, 16, 1), *backend);
  const auto held = HeldOut::Make(g, NormalSamples(g, 8, 2), *backend, {});
  ASSERT_TRUE(held.ok());
  KeepFloatOptions options;
  options.target.db = 200;
  const auto found = FindLayersToKeep(m, g, *held, options);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_FALSE(found->reached);
  EXPECT_EQ(found->keep.size(), 2u);
  EXPECT_GT(found->error.worst, 0);
}

/// `best` goes by decibels, but layers stay integer where the task has next to nothing to gain.
TEST(RecipeTarget, NothingToGainInTheTask) {
  RecipeTarget target;
  target.by_task = false;
  target.db = 30;
  target.enough_drop = 0.0025;
  HeldOutError e;
  e.sure_worst = 1e-2;  // 20 dB
  e.flips = 0.02;
  e.drop = 0.001;
  EXPECT_FALSE(target.Holds(e)) << "no labels";
  e.labelled = 60;
  EXPECT_TRUE(target.Holds(e));
  EXPECT_EQ(target.Basis(e), "top-1 drop");
  e.drop = 0.003;
  e.drop_error = 0.01;  // no excuse here
  EXPECT_FALSE(target.Holds(e));
  EXPECT_EQ(target.Basis(e), "SQNR");
  e.drop = 0.001;
  e.lost = 9;  // counted: significantly more
  EXPECT_FALSE(target.Holds(e));
  e.lost = 1;
  e.others_sure_worst = 1e-2;  // another output is not of the task
  EXPECT_FALSE(target.Holds(e));
  e.others_sure_worst = 1e-4;
  EXPECT_TRUE(target.Holds(e));
  target.enough_drop.reset();
  EXPECT_FALSE(target.Holds(e));
}

TEST(RecipeTarget, ClassesOrDecibels) {
  const RecipeTarget target;
  HeldOutError e;
  e.sure_worst = 1e-2;  // 20 dB
  EXPECT_FALSE(target.Holds(e));
  e.sure_worst = 2e-3;  // 27 dB
  EXPECT_TRUE(target.Holds(e));
  e.flips = 0.02;
  EXPECT_FALSE(target.Holds(e));
  e.sure_worst = 5e-4;  // 33 dB
  EXPECT_TRUE(target.Holds(e));
}

TEST(HeldOut, LessIsNotTheLuckOfOneSample) {
  HeldOutError a{1.0, 1.0, {1, 1, 1, 1}}, b{0.9, 0.9, {0.9, 0.9, 0.9, 0.9}};
  EXPECT_TRUE(IsLess(b, a));
  EXPECT_FALSE(IsLess(a, b));
  EXPECT_FALSE(IsLess(a, a));
  const HeldOutError lucky{0.9, 0.9, {0.0, 1.2, 1.2, 1.2}};
  EXPECT_FALSE(IsLess(lucky, a));
}

/// A candidate may err less than one that holds and not hold by the target, which allows for the
/// error of what the samples tell.
TEST(HeldOut, NoWorseIsInEveryRespect) {
  RecipeTarget target;
  target.max_drop = 0.005;
  HeldOutError holds;
  holds.rows = holds.labelled = 1000;
  holds.flips = 0.02;
  holds.lost = 8;
  holds.gained = 4;
  holds.drop = 0.0070;
  holds.drop_error = 0.0071;
  holds.sure_worst = holds.others_sure_worst = 1e-4;
  HeldOutError better = holds;
  better.drop = 0.0060;
  better.drop_error = 0.0055;
  EXPECT_TRUE(target.Holds(holds));
  EXPECT_FALSE(target.Holds(better));
  EXPECT_TRUE(IsNoWorse(better, holds));
  EXPECT_TRUE(IsNoWorse(holds, holds));
  EXPECT_FALSE(IsNoWorse(holds, better));
  for (double HeldOutError::*worse :
       {&HeldOutError::flips, &HeldOutError::sure_worst, &HeldOutError::others_sure_worst}) {
    HeldOutError e = better;
    e.*worse *= 1.01;
    EXPECT_FALSE(IsNoWorse(e, holds));
  }
  better.lost += 1;
  EXPECT_FALSE(IsNoWorse(better, holds));
  better.gained += 1;
  EXPECT_TRUE(IsNoWorse(better, holds));
}

TEST(HeldOut, TheBoundGrowsWithTheSpread) {
  const std::vector<double> signal(8, 1.0), even(8, 0.01);
  EXPECT_NEAR(UpperBound(even, signal), 0.01, 1e-9);
  std::vector<double> uneven = even;
  uneven[3] = 0.05;  // the mean is 0.015
  EXPECT_GT(UpperBound(uneven, signal), 1.5 * 0.015);
  EXPECT_LE(UpperBound(uneven, signal), 4 * 0.015 + 1e-12);
  // More samples of the same spread say more.
  std::vector<double> many, ones(64, 1.0);
  for (int i = 0; i < 64; ++i) many.push_back(uneven[static_cast<size_t>(i % 8)]);
  EXPECT_LT(UpperBound(many, ones), UpperBound(uneven, signal));
  // Two samples show no spread.
  EXPECT_NEAR(UpperBound(std::vector<double>{0.01, 0.01}, std::vector<double>{1, 1}), 0.02, 1e-9);
  EXPECT_EQ(UpperBound(std::vector<double>(8, 0.0), signal), 0);
}

/// Of many draws of heavy-tailed noise, few end above the bound of their first samples.
TEST(HeldOut, TheBoundCoversWhatFollows) {
  Random random(7);
  int above = 0;
  for (int draw = 0; draw < 400; ++draw) {
    std::vector<double> noise, signal(10, 1.0);
    double later = 0;
    for (int i = 0; i < 10; ++i) noise.push_back(std::exp(1.0 * random.Normal()));
    for (int i = 0; i < 100; ++i) later += std::exp(1.0 * random.Normal()) / 100;
    above += later > UpperBound(noise, signal);
  }
  EXPECT_LT(above, 60);  // without the bound more than half
}

/// Scores that differ by a known normal error: what is expected is what comes.
TEST(HeldOut, FlipsAreThoseThatCome) {
  const Graph g = MustParse("graph g(x: f32[200,4]) -> (y: f32[200,4]) { y = Identity(x) }");
  std::string text;
  Random random(3);
  for (int i = 0; i < 800; ++i) text += Cat(i ? ", " : "", 0.05 * random.Normal());
  const Graph h =
      MustParse(Cat("graph g(x: f32[200,4]) -> (y: f32[200,4]) { k = const f32[200,4] {", text,
                    "}\n y = Add(x, k) }"));
  const auto backend = MakeReferenceBackend();
  const Samples samples = NormalSamples(g, 8, 1);
  const auto held = HeldOut::Make(g, samples, *backend, {});
  ASSERT_TRUE(held.ok());
  const auto same = held->Measure(g), other = held->Measure(h);
  ASSERT_TRUE(same.ok() && other.ok());
  EXPECT_EQ(same->flips, 0);
  int flipped = 0;
  for (int64_t i = 0; i < samples.count; ++i) {
    const std::vector<float> x = (*samples.get(i))[0].tensor().ToFloats();
    const std::vector<float> k = h.FindValue("k")->constant()->ToFloats();
    for (size_t row = 0; row < 200; ++row) {
      const auto best = [&](bool with) {
        size_t at = 0;
        const auto score = [&](size_t c) { return x[row * 4 + c] + (with ? k[row * 4 + c] : 0); };
        for (size_t c = 1; c < 4; ++c)
          if (score(c) > score(at)) at = c;
        return at;
      };
      flipped += best(false) != best(true);
    }
  }
  const double share = flipped / 1600.0;
  EXPECT_GT(share, 0.01);
  EXPECT_NEAR(other->flips, share, 0.3 * share);
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

/// An error in a cache is seen in the scores computed from it; a cache that only the next run reads
/// would outvote them by the number of layers.
TEST(HeldOut, CachesCountThroughTheScores) {
  const auto graph = [](double of_cache, double of_scores) {
    return MustParse(Cat("graph g(x: f32[1,2,1,4], a: f32[1,2,3,4]) -> (y, k) { c = const f32[] {",
                         of_cache, "} d = const f32[] {", of_scores,
                         "} r = Mul(x, c) k = Concat(a, r) {axis=2} t = Transpose(k) "
                         "{perm=[0,1,3,2]} s = MatMul(x, t) h = const f32[] {100} "
                         "e = Add(s, h) y = Mul(e, d) }"));
  };
  const Graph g = graph(1, 1);
  const auto backend = MakeReferenceBackend();
  const auto held = HeldOut::Make(g, NormalSamples(g, 8, 1), *backend, {});
  ASSERT_TRUE(held.ok());
  const auto cache = held->Measure(graph(1.5, 1)), scores = held->Measure(graph(1, 1.1));
  ASSERT_TRUE(cache.ok() && scores.ok());
  EXPECT_NEAR(scores->worst, 0.01, 1e-6);
  EXPECT_EQ(scores->noise, scores->worst) << "the cache's 0 would halve it";
  EXPECT_EQ(cache->noise, cache->worst) << "one output is judged";
  EXPECT_GT(cache->noise, 0) << "its error is seen in the scores";
  EXPECT_GT(cache->worst_of_all, 10 * cache->worst) << "the cache itself errs more";
}

/// Changes whose noise adds up: what fits is chosen, also behind one that does not.
TEST(SubsetSearch, FillsTheLimitWithTheMostGain) {
  const std::vector<double> noise = {5, 1, 1, 9, 2, 1}, gain = {10, 1, 1, 1, 1, 1};
  int runs = 0;
  const SubsetError error = [&](const std::vector<bool>& in, int64_t) -> Result<HeldOutError> {
    ++runs;
    HeldOutError e;
    for (size_t i = 0; i < in.size(); ++i) e.worst += in[i] ? noise[i] : 0;
    e.noise = e.sure_worst = e.worst;
    return e;
  };
  SubsetOptions options;
  options.accept = [](const HeldOutError& e) { return e.sure_worst <= 8; };
  std::vector<std::pair<int64_t, int64_t>> told;
  options.progress = [&](int64_t done, int64_t total) { told.emplace_back(done, total); };
  const auto found = SearchSubset(gain, error, options);
  ASSERT_TRUE(found.ok());
  ASSERT_GE(told.size(), 6u);
  for (int64_t i = 0; i < 6; ++i)
    EXPECT_EQ(told[static_cast<size_t>(i)], (std::pair<int64_t, int64_t>(i + 1, 6)));
  EXPECT_EQ(told.back().first, told.back().second);
  EXPECT_TRUE(found->reached);
  EXPECT_EQ(found->in, (std::vector<bool>{true, true, true, false, false, true}));
  EXPECT_EQ(found->error.worst, 8);
  EXPECT_LT(runs, 30);
  options.accept = [](const HeldOutError& e) { return e.sure_worst <= 0.5; };
  const auto none = SearchSubset(gain, error, options);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->reached);
  EXPECT_EQ(none->in, std::vector<bool>(6, false));
  options.accept = [](const HeldOutError& e) { return e.sure_worst <= 4; };
  const auto small = SearchSubset(gain, error, options);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->in, (std::vector<bool>{false, true, true, false, false, true}));
}

}  // namespace
}  // namespace infer
