#include "quant/prune/low_rank.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "lib/ir/editor.h"
#include "quant/prune/group_costs.h"
#include "quant/prune/rank_costs.h"
#include "quant/prune/rank_space.h"
#include "quant/scheme/quantize.h"
#include "quant/train/fine_tune.h"
#include "tests/quant/prune/judged_test.h"

namespace infer {
namespace {

using testing::HasSubstr;

/// Every form that can be split: a strided 1x1 convolution with padding, a residual sum, MatMul,
/// Gemm both ways round with factors; a 3x3 convolution, which stays.
constexpr std::string_view kForms = R"(graph g(x: f32[1,32,6,6]) -> (z) {
  w1 = const f32[48,32,1,1] ~1
  b1 = const f32[48] ~2
  y1 = Conv(x, w1, b1) {strides = [2, 2], pads = [1, 1, 1, 1]}
  r1 = Relu(y1)
  w2 = const f32[48,48,3,3] ~3
  y2 = Conv(r1, w2) {pads = [1, 1, 1, 1]}
  s = Add(y2, r1)
  p = GlobalAveragePool(s)
  f = Flatten(p)
  w3 = const f32[48,64] ~4
  y3 = MatMul(f, w3)
  t3 = Tanh(y3)
  w4 = const f32[56,64] ~5
  b4 = const f32[56] ~6
  y4 = Gemm(t3, w4, b4) {alpha = 0.5, beta = 2.0, transB = 1}
  t4 = Tanh(y4)
  w5 = const f32[56,40] ~7
  z = Gemm(t4, w5) {alpha = 3.0}
})";

/// Both layers multiply by w.
constexpr std::string_view kShared = R"(graph g(x: f32[8,64]) -> (z) {
  w = const f32[64,64] ~1
  a = MatMul(x, w)
  t = Tanh(a)
  b = MatMul(t, w)
  v = const f32[64,48] ~2
  z = MatMul(b, v)
})";

class LowRankTest : public JudgedTest {
 protected:
  Result<LowRankReport> Split(Graph& g, const LowRankOptions& o, int64_t samples = 48) {
    return SplitProducts(g, samples > 0 ? NormalSamples(g, samples, 1) : Samples(), *backend_, o);
  }
  static LowRankOptions Goal(LowRankGoal::Kind kind, double value) {
    LowRankOptions o;
    o.goal = {kind, value};
    o.multiple = 4;
    return o;
  }
  /// The same model whose weights have no more than `rank`: what can be cut without a loss.
  static Graph OfRank(std::string_view text, int64_t rank) {
    Graph g = MustParse(text);
    const auto found = FindPrunable(g, g, {});
    EXPECT_TRUE(found.ok());
    for (const PrunableWeights& w : *found) {
      if (!WhyNotSplit(g, w).empty()) continue;
      Random random(5);
      LowRankFactors f{rank, {}, {}, {}};
      for (int64_t i = 0; i < w.place.plane.rows * rank; ++i)
        f.left.push_back(static_cast<float>(0.3 * random.Normal()));
      for (int64_t i = 0; i < rank * w.place.plane.depth(); ++i)
        f.right.push_back(static_cast<float>(0.3 * random.Normal()));
      Value* const v = g.FindValue(w.weights);
      GraphEditor(g).SetConstant(
          v, w.place.Write(ProductOf(w.place.plane, f).weights, *v->constant()));
    }
    return g;
  }
};

TEST_F(LowRankTest, EveryFormOfProductIsSplitExactly) {
  const Graph golden = OfRank(kForms, 4);
  Graph g = golden.Clone();
  const auto r = Split(g, Goal(LowRankGoal::Kind::kRank, 0.15));
  ASSERT_TRUE(r.ok()) << r.status().message();
  int split = 0;
  for (const SplitProduct& p : r->layers) {
    split += p.rank > 0 ? 1 : 0;
    if (p.rank > 0) {
      EXPECT_LT(p.error, 1e-3) << p.name;
      EXPECT_LE(p.us_after, 0.9 * p.us) << p.name;
    }
  }
  EXPECT_EQ(split, 4);
  EXPECT_EQ(r->layers[1].reason, "its windows are larger than one point");
  EXPECT_GT(Decibels(golden, g), 60);
  // A Gemm without a bias is younger than some files.
  EXPECT_TRUE(g.FindValue("y4_rank")->producer()->Is("MatMul"));
  EXPECT_EQ(r->parameters_after, ConstantsOf(g).elements);
  EXPECT_EQ(r->flops_after, FlopsOf(g));
  EXPECT_LT(r->flops_after, r->flops);
}

TEST_F(LowRankTest, TheRewrittenGraphComputesTheProductOfItsFactors) {
  // Factors that have nothing to do with the weights: nothing but the rewriting is looked at.
  Graph products = MustParse(kForms), split = MustParse(kForms);
  const auto found = FindPrunable(products, products, {});
  ASSERT_TRUE(found.ok());
  int count = 0;
  for (const PrunableWeights& w : *found) {
    if (!WhyNotSplit(products, w).empty()) continue;
    LowRankFactors f = SomeFactors(w.place.plane, 3 + count++);
    for (size_t i = 0; i < f.left.size(); ++i) f.left[i] *= i % 2 == 0 ? 1.0f : -0.7f;
    Value* const v = products.FindValue(w.weights);
    GraphEditor(products).SetConstant(
        v, w.place.Write(ProductOf(w.place.plane, f).weights, *v->constant()));
    ASSERT_TRUE(SplitLayer(split, w, f).ok());
  }
  EXPECT_EQ(count, 4);
  EXPECT_EQ(split.num_nodes(), products.num_nodes() + 4);
  EXPECT_GT(Decibels(products, split), 90);
}

TEST_F(LowRankTest, SharedWeightsShareTheirFactors) {
  const Graph golden = OfRank(kShared, 6);
  Graph g = golden.Clone();
  const auto r = Split(g, Goal(LowRankGoal::Kind::kRank, 0.125));
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->layers[0].readers, 2);
  EXPECT_EQ(r->layers[0].rank, 8);
  EXPECT_GT(Decibels(golden, g), 60);
  const Node& first = *g.FindValue("a")->producer();
  const Node& second = *g.FindValue("b")->producer();
  EXPECT_EQ(first.input(1), second.input(1));
  EXPECT_EQ(first.input(0)->producer()->input(1), second.input(0)->producer()->input(1));
  EXPECT_EQ(ConstantsOf(g).elements, 2 * 64 * 8 + 8 * (64 + 48));
}

TEST_F(LowRankTest, DataDecideWhatIsKept) {
  // Half of the inputs are nearly always 0: what the weights make of them is worth nothing.
  const Graph golden = MustParse(R"(graph g(x: f32[16,64]) -> (z) {
    s = const f32[64] ~9
    m = Mul(x, s)
    h = Tanh(m)
    w = const f32[64,64] ~1
    z = MatMul(h, w)
  })");
  Graph scaled = golden.Clone();
  Tensor s = scaled.FindValue("s")->constant()->Clone();
  for (int64_t i = 0; i < 64; ++i) s.Set(i, i % 4 == 0 ? 1.0 : 0.01);
  GraphEditor(scaled).SetConstant(scaled.FindValue("s"), std::move(s));
  Graph g = scaled.Clone();
  const auto r = Split(g, Goal(LowRankGoal::Kind::kRank, 0.25));
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_LT(r->layers[0].error, 0.2 * r->layers[0].plain_error);
  EXPECT_GT(Decibels(scaled, g), 25);
}

TEST_F(LowRankTest, BytesAndSpeedAreGoals) {
  const Graph golden = MustParse(kForms);
  const auto bytes = static_cast<double>(ConstantsOf(golden).bytes);
  Graph g = golden.Clone();
  auto r = Split(g, Goal(LowRankGoal::Kind::kBytes, 0.95 * bytes));
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_LE(static_cast<double>(ConstantsOf(g).bytes), 0.95 * bytes);
  EXPECT_GT(r->measured, 0);

  LowRankOptions o = Goal(LowRankGoal::Kind::kSpeedup, 1.02);
  o.speedup = [](const Graph& dense, const Graph& split) -> Result<double> {
    return static_cast<double>(FlopsOf(dense)) / static_cast<double>(FlopsOf(split));
  };
  g = golden.Clone();
  r = Split(g, o);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_GE(r->speedup, 1.02);

  g = golden.Clone();
  o.speedup = [](const Graph&, const Graph&) -> Result<double> { return 1.0; };
  EXPECT_THAT(Split(g, o).status().message(), HasSubstr("out of reach"));
  EXPECT_THAT(Split(g, Goal(LowRankGoal::Kind::kBytes, 0.3 * bytes)).status().message(),
              HasSubstr("lowest ranks leave"));
  EXPECT_EQ(Fingerprint(g), Fingerprint(golden));
}

TEST_F(LowRankTest, TheDropIsAGoal) {
  Graph g = OfRank(kForms, 4);
  const auto r = Split(g, Goal(LowRankGoal::Kind::kDrop, 0.2), 32);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_GE(r->drop, 0);
  EXPECT_LE(r->drop, 0.2);
  EXPECT_LT(r->us_after, r->us);
}

TEST_F(LowRankTest, WhatIsKnownIsNotMeasuredAgain) {
  MemoryStore store;
  const Graph golden = MustParse(kForms);
  LowRankOptions o =
      Goal(LowRankGoal::Kind::kBytes, 0.95 * static_cast<double>(ConstantsOf(golden).bytes));
  o.store = &store;
  Graph first = golden.Clone(), again = golden.Clone();
  const auto once = Split(first, o), twice = Split(again, o);
  ASSERT_TRUE(once.ok() && twice.ok());
  EXPECT_EQ(once->reused, 0);
  EXPECT_EQ(twice->measured, 0);
  EXPECT_EQ(twice->reused, once->measured);
  EXPECT_EQ(Fingerprint(first), Fingerprint(again));
}

TEST_F(LowRankTest, LayersThatWouldNotGainStayWhole) {
  // 8 x 8 at rank 4 is as many weights as before.
  Graph g = MustParse(R"(graph g(x: f32[4,8]) -> (z) {
    w = const f32[8,8] ~1
    z = MatMul(x, w)
  })");
  const Graph golden = g.Clone();
  auto r = Split(g, Goal(LowRankGoal::Kind::kRank, 0.5));
  EXPECT_EQ(r.status().code(), Code::kUnsupported);
  EXPECT_THAT(r.status().message(), HasSubstr("nothing to split"));
  EXPECT_THAT(r.status().message(), HasSubstr("no smaller"));
  // Smaller, but the table has to tell less time, too.
  Graph forms = MustParse(kForms);
  LowRankOptions o = Goal(LowRankGoal::Kind::kBytes, 1e4);
  o.sure = 0;
  r = Split(forms, o);
  EXPECT_EQ(r.status().code(), Code::kUnsupported);
  EXPECT_THAT(r.status().message(), HasSubstr("no faster"));
  EXPECT_EQ(Fingerprint(g), Fingerprint(golden));
}

TEST_F(LowRankTest, RequestsThatCannotBeMet) {
  const Graph golden = MustParse(kForms);
  Graph g = golden.Clone();
  const auto said = [&](const LowRankOptions& o, int64_t samples = 48) {
    const auto r = Split(g, o, samples);
    EXPECT_FALSE(r.ok());
    return r.ok() ? "" : r.status().message();
  };
  EXPECT_THAT(said(Goal(LowRankGoal::Kind::kRank, 0)), HasSubstr("above 0"));
  EXPECT_THAT(said(Goal(LowRankGoal::Kind::kRank, 1)), HasSubstr("below 100 %"));
  EXPECT_THAT(said(Goal(LowRankGoal::Kind::kRank, 0.25), 0), HasSubstr("calibration data"));
  EXPECT_THAT(said(Goal(LowRankGoal::Kind::kDrop, 0.01), 4), HasSubstr("at least 8"));
  EXPECT_THAT(said(Goal(LowRankGoal::Kind::kSpeedup, 1)), HasSubstr("above 1"));
  LowRankOptions excluded = Goal(LowRankGoal::Kind::kRank, 0.25);
  excluded.scope.exclude = {ParseNodePattern("*")};
  EXPECT_THAT(said(excluded), HasSubstr("excluded by"));
  EXPECT_EQ(Fingerprint(g), Fingerprint(golden));
  const auto r = Split(g, Goal(LowRankGoal::Kind::kRank, 0.25));
  ASSERT_TRUE(r.ok());
  const auto q = QuantizeStatic(g, NormalSamples(golden, 16, 3), *backend_);
  ASSERT_TRUE(q.ok()) << q.status().message();
  EXPECT_GE(q->integer_layers, 6);
  EXPECT_THAT(said(Goal(LowRankGoal::Kind::kRank, 0.25)), HasSubstr("quantized already"));
}

TEST_F(LowRankTest, BothFactorsAreTrained) {
  const Graph golden = MustParse(kForms);
  Graph g = golden.Clone();
  ASSERT_TRUE(Split(g, Goal(LowRankGoal::Kind::kRank, 0.15)).ok());
  const Graph before = g.Clone();
  FineTuneOptions o;
  o.steps = 30;
  o.batch = 8;
  const auto tuned = FineTune(g, golden, NormalSamples(golden, 48, 1), *backend_, o);
  ASSERT_TRUE(tuned.ok()) << tuned.status().message();
  EXPECT_LT(tuned->loss_after, tuned->loss_before);
  for (const char* name : {"w3_right", "w3_left"}) {
    const Value *was = before.FindValue(name), *is = g.FindValue(name);
    ASSERT_TRUE(was && is) << name;
    EXPECT_NE(was->constant()->ToFloats(), is->constant()->ToFloats()) << name;
  }
}

TEST(Ranks, AreMultiplesBelowTheBreakEven) {
  const std::vector<std::pair<int64_t, int64_t>> extents = {
      {768, 768}, {1000, 2048}, {64, 24}, {10, 500}, {7, 9}};
  for (const auto& [rows, depth] : extents) {
    const auto ranks = RanksOf(rows, depth, 16);
    for (const int64_t r : ranks) EXPECT_LT(r * (rows + depth), rows * depth);
    EXPECT_TRUE(std::is_sorted(ranks.begin(), ranks.end()));
    EXPECT_LE(ranks.size(), 12u);
    EXPECT_FALSE(ranks.empty()) << rows << " " << depth;
    if (std::min(rows, depth) >= 32) {
      for (const int64_t r : ranks) EXPECT_EQ(r % 16, 0);
    }
  }
  EXPECT_EQ(RanksOf(768, 768, 16).front(), 16);
  EXPECT_EQ(RanksOf(768, 768, 16).back(), 368);
  EXPECT_TRUE(RanksOf(1, 100, 16).empty());
  EXPECT_EQ(RankOfShare(768, 3072, 16, 0.25), 192);
  EXPECT_EQ(RankOfShare(768, 3072, 16, 0.001), 16);
}

TEST(Ranks, AreChosenForTheLeastCost) {
  // The second layer costs nothing, the first one much.
  std::vector<RankedLayer> layers(2);
  for (RankedLayer& l : layers) {
    l.bytes = 1000;
    l.us = 10;
    l.levels = {{8, 200, 2}, {16, 400, 5}};
  }
  const std::vector<LevelCosts> costs = {{{1, 0.5}, {1, 0.5}}, {{1, 0.5}, {0.01, 0.001}}};
  const auto chosen = ChooseRanks(layers, costs, RankLimit::kBytes, 1400);
  ASSERT_TRUE(chosen.has_value());
  EXPECT_EQ((*chosen)[0], std::nullopt);
  EXPECT_EQ((*chosen)[1], std::optional<size_t>(1));
  EXPECT_EQ(LeftOf(layers, *chosen, RankLimit::kBytes), 1400);
  const auto faster = ChooseRanks(layers, costs, RankLimit::kMicroseconds, 12);
  ASSERT_TRUE(faster.has_value());
  EXPECT_EQ((*faster)[1], std::optional<size_t>(0));
  EXPECT_LE(LeftOf(layers, *faster, RankLimit::kMicroseconds), 12);
  EXPECT_EQ(ChooseRanks(layers, costs, RankLimit::kBytes, 300), std::nullopt);
}

}  // namespace
}  // namespace infer
