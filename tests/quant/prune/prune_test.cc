#include "quant/prune/prune.h"

#include <gmock/gmock.h>

#include <cmath>

#include "passes/pass/pipeline.h"
#include "quant/prune/describe.h"
#include "tests/quant/prune/judged_test.h"

namespace infer {
namespace {

constexpr std::string_view kNet = R"(graph g(x: f32[1,4,8,8]) -> (z) {
  w1 = const f32[16,4,3,3] ~1
  y1 = Conv(x, w1) {pads = [1, 1, 1, 1]}
  r1 = Relu(y1)
  w2 = const f32[16,1,3,3] ~2
  y2 = Conv(r1, w2) {pads = [1, 1, 1, 1], group = 16}
  r2 = Relu(y2)
  w3 = const f32[16,8,1,1] ~3
  y3 = Conv(r2, w3) {group = 2}
  r3 = Relu(y3)
  p = GlobalAveragePool(r3)
  f = Flatten(p)
  w4 = const f32[16,12] ~4
  z = MatMul(f, w4)
})";

class PruneTest : public JudgedTest {
 protected:
  PruneReport MustPrune(Graph& g, const PruneOptions& o, int64_t samples = 24) {
    auto r = PruneModel(g, samples > 0 ? NormalSamples(g, samples, 1) : Samples(), *backend_, o);
    EXPECT_TRUE(r.ok()) << r.status().message();
    return r.ok() ? *std::move(r) : PruneReport();
  }
  static int64_t Zeros(const Graph& g) {
    int64_t zeros = 0;
    for (const LayerSparsity& l : DescribeSparsity(g)) zeros += l.zeros;
    return zeros;
  }
};

TEST_F(PruneTest, SparsityIsExactAndSurvivesFusing) {
  for (const double share : {0.3, 0.5, 0.81}) {
    for (const auto allocation : {PruneAllocation::kMeasured, PruneAllocation::kUniform,
                                  PruneAllocation::kGlobal, PruneAllocation::kLamp}) {
      Graph g = MustParse(kNet);
      PruneOptions o;
      o.pattern.share = share;
      o.allocation = allocation;
      const PruneReport r = MustPrune(g, o);
      const int64_t all = 16 * 4 * 9 + 16 * 9 + 16 * 8 + 16 * 12;
      EXPECT_EQ(r.weights, all);
      EXPECT_EQ(r.zeros, std::llround(share * static_cast<double>(all))) << Name(allocation);
      EXPECT_EQ(Zeros(g), r.zeros);
      Graph fused = g.Clone();
      ASSERT_TRUE(Optimize(fused).ok());
      EXPECT_EQ(Zeros(fused), r.zeros);
    }
  }
}

TEST_F(PruneTest, AutoIsNearerToTheDenseModelThanEachMethod) {
  const Graph golden = MustParse(kNet);
  const auto decibels = [&](PruneMethod method, PruneAllocation allocation) {
    Graph g = golden.Clone();
    PruneOptions o;
    o.method = method;
    o.allocation = allocation;
    MustPrune(g, o, 64);
    return Decibels(golden, g);
  };
  const double best = decibels(PruneMethod::kAuto, PruneAllocation::kMeasured);
  const double second = decibels(PruneMethod::kSparseGpt, PruneAllocation::kUniform);
  const double magnitude = decibels(PruneMethod::kMagnitude, PruneAllocation::kUniform);
  EXPECT_GT(best, second + 1);
  EXPECT_GT(second, magnitude);
}

/// One block of attention with a cache; `outputs` names those that are told.
Graph Decoder(const std::string& outputs) {
  return MustParse(Cat("graph g(x: f32[1,6,8], pk: f32[1,3,8], pv: f32[1,3,8]) -> (", outputs,
                       ") {",
                       R"(
    wq = const f32[8,8] ~1 wk = const f32[8,8] ~2 wv = const f32[8,8] ~3
    q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)
    present_k = Concat(pk, k) {axis=1} present_v = Concat(pv, v) {axis=1}
    t = Transpose(present_k) {perm=[0,2,1]} s = MatMul(q, t) p = Softmax(s) {axis=-1}
    o = MatMul(p, present_v) wo = const f32[8,8] ~4 h = MatMul(o, wo)
    w1 = const f32[8,16] ~5 a = MatMul(h, w1) r = Relu(a) w2 = const f32[16,12] ~6
    y = MatMul(r, w2) })"));
}

/// Caches are seen in what is computed from them. A layer that makes nothing but the scores costs
/// the same whether caches are outputs or not.
TEST_F(PruneTest, CachesDoNotDecideLevels) {
  const auto levels = [&](const std::string& outputs) {
    Graph g = Decoder(outputs);
    std::vector<std::pair<std::string, int64_t>> zeros;
    for (const PrunedLayer& l : MustPrune(g, {}).layers) zeros.emplace_back(l.name, l.zero_units);
    std::sort(zeros.begin(), zeros.end());
    return zeros;
  };
  const auto alone = levels("y");
  EXPECT_EQ(alone.size(), 6u);
  EXPECT_EQ(levels("y, present_k, present_v"), alone);
  EXPECT_EQ(levels("present_k, y, present_v"), alone);
  EXPECT_NE(levels("y, h"), alone) << "an output that is no cache counts";
}

TEST_F(PruneTest, NmLeavesWhatHasNoWholeGroup) {
  Graph g = MustParse(kNet);
  PruneOptions o;
  o.pattern = *ParseNm("2:4");
  o.spare_share = 0;
  const PruneReport r = MustPrune(g, o);
  ASSERT_EQ(r.layers.size(), 4u);
  EXPECT_THAT(r.layers[1].reason, testing::HasSubstr("1 channel per group"));
  EXPECT_EQ(2 * r.zeros, r.weights);
  for (const LayerSparsity& l : DescribeSparsity(g)) {
    if (l.zeros > 0) {
      EXPECT_LE(l.n * 4, l.m * 2) << l.name;
    }
  }
}

TEST_F(PruneTest, WithoutDataByMagnitudeAndSaysWhatNeedsThem) {
  Graph g = MustParse(kNet);
  const Graph golden = g.Clone();
  PruneOptions o;
  o.method = PruneMethod::kWanda;
  const auto refused = PruneModel(g, {}, *backend_, o);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Fingerprint(g), Fingerprint(golden));
  o.method = PruneMethod::kAuto;
  const PruneReport r = MustPrune(g, o, 0);
  EXPECT_EQ(r.allocation, "lamp");
  for (const PrunedLayer& l : r.layers)
    EXPECT_TRUE(l.method == "magnitude" || l.method == "dense") << l.method;
  EXPECT_EQ(2 * r.zeros, r.weights);
}

TEST_F(PruneTest, SharedWeightsCountOnceAndTablesStay) {
  Graph g = MustParse(R"(graph g(x: f32[8,16], i: i64[3]) -> (a, b, t) {
  w = const f32[16,16] ~1
  e = const f32[16,16] ~2
  y = MatMul(x, w)
  r = Relu(y)
  a = MatMul(r, w)
  b = MatMul(r, e)
  t = Gather(e, i)
})");
  std::vector<std::vector<Datum>> runs;
  Random random(1);
  for (int k = 0; k < 12; ++k) {
    Tensor x(DType::kF32, {8, 16});
    for (float& v : x.mutable_data<float>()) v = static_cast<float>(random.Normal());
    runs.push_back({std::move(x), Tensor::Of<int64_t>({3}, {0, 5, 2})});
  }
  const auto r = PruneModel(g, InMemory(std::move(runs)), *backend_, {});
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->weights, 256);
  EXPECT_EQ(r->zeros, 128);
  ASSERT_EQ(r->layers.size(), 2u);
  EXPECT_THAT(r->layers[1].reason, testing::HasSubstr("more than weights"));
}

TEST_F(PruneTest, RecurrentAndTransposedLayersAndExclusion) {
  const std::string_view net = R"(graph g(x: f32[5,1,8], u: f32[1,8,4,4]) -> (h, v) {
  w = const f32[1,32,8] ~1
  r = const f32[1,32,8] ~2
  h, hn, cn = LSTM(x, w, r) {hidden_size = 8}
  k = const f32[8,4,2,2] ~3
  v = ConvTranspose(u, k) {strides = [2, 2]}
})";
  Graph g = MustParse(net);
  const PruneReport r = MustPrune(g, {});
  ASSERT_EQ(r.layers.size(), 3u);
  EXPECT_EQ(r.weights, 256 + 256 + 128);
  EXPECT_EQ(2 * r.zeros, r.weights);
  Graph again = MustParse(net);
  PruneOptions o;
  o.scope.exclude = {{NodePattern::Kind::kOp, "LSTM"}};
  EXPECT_EQ(MustPrune(again, o).weights, 128);
  o.scope.exclude = {{NodePattern::Kind::kGlob, "nothing*"}};
  EXPECT_EQ(PruneModel(again, NormalSamples(again, 8, 1), *backend_, o).status().code(),
            Code::kInvalidArgument);
}

TEST_F(PruneTest, NothingToPruneSaysWhy) {
  Graph g = MustParse("graph g(x: f32[2,3]) -> (y) { y = Relu(x) }");
  EXPECT_EQ(PruneModel(g, NormalSamples(g, 8, 1), *backend_, {}).status().code(),
            Code::kUnsupported);
  Graph thin = MustParse(R"(graph g(x: f32[2,3]) -> (y) {
  w = const f32[3,2] ~1
  y = MatMul(x, w)
})");
  PruneOptions o;
  o.pattern = *ParseNm("2:4");
  const auto r = PruneModel(thin, NormalSamples(thin, 8, 1), *backend_, o);
  EXPECT_THAT(r.status().message(), testing::HasSubstr("3 channels, fewer than the 4 of a group"));
}

}  // namespace
}  // namespace infer
