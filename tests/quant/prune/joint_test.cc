#include "quant/prune/joint.h"

#include <gmock/gmock.h>

#include <set>

#include "quant/convert/dynamic.h"
#include "quant/prune/describe.h"
#include "quant/recipe/recipe.h"
#include "quant/weight_only/round.h"
#include "quant/weight_only/weight_only.h"
#include "tests/quant/prune/judged_test.h"

namespace infer {
namespace {

constexpr std::string_view kJointNet = R"(graph g(x: f32[1,8,6,6]) -> (z) {
  w1 = const f32[16,8,3,3] ~1
  y1 = Conv(x, w1) {pads = [1, 1, 1, 1], strides = [2, 2]}
  r1 = Relu(y1)
  w2 = const f32[16,16,1,1] ~2
  y2 = Conv(r1, w2)
  r2 = Relu(y2)
  f = Flatten(r2)
  w3 = const f32[144,32] ~3
  h = MatMul(f, w3)
  r3 = Relu(h)
  w4 = const f32[32,40] ~4
  z = MatMul(r3, w4)
})";
constexpr int64_t kJointWeights = 16 * 8 * 9 + 16 * 16 + 144 * 32 + 32 * 40;

class JointTest : public JudgedTest {
 protected:
  JointTest() : golden_(MustParse(kJointNet)), samples_(NormalSamples(golden_, 40, 1)) {}

  JointPruning Half() const { return Pruning("0.5"); }
  JointPruning Pruning(const std::string& what) const {
    PruneOptions o;
    if (what.find(':') != std::string::npos)
      o.pattern = *ParseNm(what);
    else
      o.pattern.share = std::stod(what);
    return {o, *backend_};
  }
  /// Of integer constants, and of f32 ones that layers read.
  static int64_t ZeroCodes(const Graph& g) {
    int64_t zeros = 0;
    for (const auto& v : g.values()) {
      if (!v->is_constant() || v->dtype() != DType::kI8 || v->constant()->rank() < 2) continue;
      const std::vector<float> codes = v->constant()->ToFloats();
      zeros += std::count(codes.begin(), codes.end(), 0.0f);
    }
    return zeros;
  }
  RecipeReport Static(Graph& g, JointPruning& joint, Recipe recipe) {
    RecipeOptions o;
    o.recipe = recipe;
    o.prune = joint.Fitted();
    auto r = QuantizeByRecipe(g, samples_, *backend_, o);
    EXPECT_TRUE(r.ok()) << r.status().message();
    return r.ok() ? *std::move(r) : RecipeReport();
  }

  Graph golden_;
  Samples samples_;
};

TEST_F(JointTest, EveryRecipeKeepsEveryZero) {
  for (const Recipe recipe : {Recipe::kNone, Recipe::kFast, Recipe::kBalanced, Recipe::kBest})
    for (const char* what : {"0.5", "2:4"}) {
      JointPruning joint = Pruning(what);
      Graph g = golden_.Clone();
      Static(g, joint, recipe);
      const PruneReport& r = joint.report();
      EXPECT_EQ(r.weights, kJointWeights);
      if (what[0] == '0') {
        EXPECT_EQ(r.zero_units, kJointWeights / 2);
      }
      int64_t zeros = 0;
      for (const LayerSparsity& l : DescribeSparsity(g)) {
        zeros += l.zeros;
        const auto pruned = std::find_if(r.layers.begin(), r.layers.end(),
                                         [&](const auto& p) { return p.name == l.name; });
        if (what[0] == '2' && pruned != r.layers.end() && pruned->zero_units > 0) {
          EXPECT_LE(l.n * 4, l.m * 2) << l.name;
        }
      }
      // Of the f32 model as it was rounded: no step has given a zero another code.
      EXPECT_GE(zeros, r.zeros) << static_cast<int>(recipe) << " " << what;
    }
}

/// Numbers of the first input of every sample.
std::set<std::vector<float>> NumbersOf(const Samples& samples) {
  std::set<std::vector<float>> all;
  for (int64_t i = 0; i < samples.count; ++i) all.insert((*samples.get(i))[0].tensor().ToFloats());
  return all;
}

/// 40 samples for layers of up to 144 inputs: whatever is fitted to is met far better than others.
TEST_F(JointTest, HeldOutSamplesTellWhatOthersDo) {
  JointPruning joint = Half();
  Graph g = golden_.Clone();
  const RecipeReport r = Static(g, joint, Recipe::kFast);
  EXPECT_TRUE(r.is_held_out);
  EXPECT_EQ(joint.report().calibration_samples, 40 - r.held_out_samples);
  EXPECT_LT(r.held_out_db, Decibels(golden_, g) + 1.5);
}

TEST_F(JointTest, PruningSeesNoneOfThem) {
  RecipeOptions o;
  o.recipe = Recipe::kFast;
  std::set<std::vector<float>> seen;
  JointPruning joint = Half();
  o.prune = [&](Graph& prepared, const Graph& original, const WeightGrids& grids,
                const Samples& fit) {
    seen = NumbersOf(fit);
    return joint.Change(prepared, original, grids, fit);
  };
  Graph g = golden_.Clone();
  const auto r = QuantizeByRecipe(g, samples_, *backend_, o);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_GT(r->held_out_samples, 0);
  EXPECT_EQ(static_cast<int64_t>(seen.size()), 40 - r->held_out_samples);
  g = golden_.Clone();
  const auto few = QuantizeByRecipe(g, NormalSamples(golden_, 2, 1), *backend_, o);
  ASSERT_TRUE(few.ok()) << few.status().message();
  EXPECT_FALSE(few->is_held_out);
}

TEST_F(JointTest, DynamicAndWeightOnlyKeepThem) {
  {
    JointPruning joint = Half();
    Graph g = golden_.Clone();
    DynamicOptions o;
    o.change = joint.By(samples_);
    ASSERT_TRUE(QuantizeDynamic(g, o).ok());
    EXPECT_EQ(joint.report().zero_units, kJointWeights / 2);
    EXPECT_EQ(ZeroCodes(g), joint.report().zeros);
  }
  for (const int bits : {4, 8}) {
    JointPruning joint = Half();
    Graph g = golden_.Clone();
    WeightOnlyOptions o;
    o.scheme.grid = {bits, 32, /*symmetric=*/bits == 8, false};
    o.change = joint.By(samples_);
    o.rounder = [&](Graph&, const WeightPlan&) -> Result<BlockRounder> {
      return joint.Rounder(NearestRounder());
    };
    const auto r = QuantizeWeightOnly(g, o);
    ASSERT_TRUE(r.ok()) << r.status().message();
    EXPECT_EQ(joint.report().zero_units, kJointWeights / 2);
    int64_t by_codes = 0;
    for (const QuantizedLayer& l : r->layers) by_codes += l.method == "pruned";
    EXPECT_EQ(by_codes, static_cast<int64_t>(joint.report().codes.size()));
    EXPECT_EQ(by_codes, 2);
    EXPECT_GT(Decibels(golden_, g), 8);
  }
}

TEST_F(JointTest, IsNearerToTheDenseModelThanRoundingAfterPruning) {
  for (const int bits : {4, 2}) {
    WeightOnlyOptions o;
    o.scheme.grid.bits = bits;
    o.scheme.grid.block = 32;
    JointPruning joint = Half();
    Graph together = golden_.Clone(), apart = golden_.Clone();
    WeightOnlyOptions with = o;
    // More rows than the largest layer has inputs: fewer tell as much of noise.
    const Samples samples = NormalSamples(golden_, 250, 1);
    with.change = joint.By(samples);
    with.rounder = [&](Graph&, const WeightPlan&) -> Result<BlockRounder> {
      return joint.Rounder(NearestRounder());
    };
    ASSERT_TRUE(QuantizeWeightOnly(together, with).ok());
    ASSERT_TRUE(PruneModel(apart, samples, *backend_, joint.options()).ok());
    ASSERT_TRUE(QuantizeWeightOnly(apart, o).ok());
    EXPECT_GT(Decibels(golden_, together), Decibels(golden_, apart)) << bits;
  }
}

TEST_F(JointTest, LayersThatStayF32ArePrunedToo) {
  JointPruning joint = Half();
  Graph g = golden_.Clone();
  DynamicOptions o;
  o.convolutions = false;
  o.change = joint.By({});
  ASSERT_TRUE(QuantizeDynamic(g, o).ok());
  const PruneReport& r = joint.report();
  EXPECT_EQ(r.zero_units, kJointWeights / 2);
  EXPECT_EQ(r.layers[0].method, "magnitude");
  EXPECT_EQ(r.layers[3].method, "magnitude+nearest");
}

}  // namespace
}  // namespace infer
