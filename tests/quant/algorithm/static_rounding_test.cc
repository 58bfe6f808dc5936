#include "quant/algorithm/static_rounding.h"

#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/algorithm/layers.h"
#include "quant/recipe/held_out.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

/// The input of the layer under test mixes few causes, so that its elements are correlated.
const std::string kProduct = R"(graph g(x: f32[32,4]) -> (y: f32[32,8]) {
  m = const f32[4,24] ~1
  w = const f32[24,8] ~2
  a = MatMul(x, m)
  y = MatMul(a, w)
})";
const std::string kGemm = R"(graph g(x: f32[32,4]) -> (y: f32[32,8]) {
  m = const f32[4,24] ~1
  w = const f32[8,24] ~2
  c = const f32[8] ~3
  a = MatMul(x, m)
  y = Gemm(a, w, c) {transB=1}
})";
std::string Conv(int64_t group) {
  return Cat(R"(graph g(x: f32[1,2,8,8]) -> (y: f32[1,8,8,8]) {
  m = const f32[8,2,1,1] ~1
  w = const f32[8,)",
             8 / group, R"(,3,3] ~2
  a = Conv(x, m)
  y = Conv(a, w) {pads=[1,1,1,1], group=)",
             group, "}\n}");
}

class StaticRoundingTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();

  StaticModel Calibrated(const Graph& g, const Samples& samples, QuantScheme scheme) {
    StaticModel m{g.Clone(), {}, std::move(scheme)};
    const auto plan = PlanQuantization(m.graph, g, m.scheme);
    EXPECT_TRUE(plan.ok());
    m.ranges = *Calibrate(m.graph, ObservedValues(*plan), samples, *backend_);
    return m;
  }
  double NoiseOf(const StaticModel& m, const Graph& g, const Samples& held) {
    const auto h = HeldOut::Make(g, held, *backend_, {});
    const auto r = RewriteStatic(m, g, held.count);
    EXPECT_TRUE(r.ok()) << r.status().message();
    EXPECT_TRUE(Verify(r->graph).ok());
    return h->Measure(r->graph)->noise;
  }
};

/// 16-bit activations and 7-bit weights, so that nearly all of the noise is that of the weights.
QuantScheme CoarseWeights() {
  QuantScheme s;
  s.activations = {DType::kU16, false, false};
  s.weights.reduce_range = true;
  return s;
}

TEST_F(StaticRoundingTest, ErrsLessThanNearestOnOtherData) {
  for (const std::string& text : {kProduct, kGemm, Conv(1), Conv(2)}) {
    for (const CodeRounder& rounder : CodeRounders()) {
      for (const DType weights : {DType::kI8, DType::kU8}) {
        const Graph g = MustParse(text);
        const Samples fit = NormalSamples(g, 24, 1), held = NormalSamples(g, 8, 2);
        QuantScheme scheme = CoarseWeights();
        scheme.weights.dtype = weights;
        const StaticModel nearest = Calibrated(g, fit, scheme);
        StaticModel m{g.Clone(), nearest.ranges, nearest.scheme};
        StaticRoundingOptions options;
        options.rounders = {&rounder};
        const auto r = RoundStaticWeights(m, g, fit, {backend_.get()}, options);
        ASSERT_TRUE(r.ok()) << r.status().message();
        EXPECT_GT(r->by.at(rounder.name), 0) << text;
        EXPECT_LT(r->noise, r->nearest_noise);
        EXPECT_LT(NoiseOf(m, g, held), 0.8 * NoiseOf(nearest, g, held)) << text;
      }
    }
  }
}

TEST_F(StaticRoundingTest, DepthwiseLayersHaveMomentsPerChannel) {
  const Graph g = MustParse(Conv(8));
  const Samples fit = NormalSamples(g, 24, 1), held = NormalSamples(g, 8, 2);
  const StaticModel nearest = Calibrated(g, fit, CoarseWeights());
  StaticModel m{g.Clone(), nearest.ranges, nearest.scheme};
  const auto r = RoundStaticWeights(m, g, fit, {backend_.get()});
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_LE(r->noise, r->nearest_noise);
  EXPECT_LE(NoiseOf(m, g, held), 1.02 * NoiseOf(nearest, g, held));
}

TEST_F(StaticRoundingTest, OneScaleForAllChannelsStays) {
  const Graph g = MustParse(kProduct);
  const Samples fit = NormalSamples(g, 24, 1);
  QuantScheme scheme = CoarseWeights();
  scheme.per_channel = false;
  StaticModel m = Calibrated(g, fit, scheme);
  const auto r = RoundStaticWeights(m, g, fit, {backend_.get()});
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_EQ(m.scheme.rounded.count("y"), 1u);
  EXPECT_EQ(m.scheme.rounded.at("y").params.scale.size(), 1u);
  const auto written = RewriteStatic(m, g, 24);
  ASSERT_TRUE(written.ok());
  const Node& node = *written->graph.FindValue("y")->producer();
  EXPECT_EQ(node.input(1)->producer()->input(0)->constant()->ToFloats(),
            m.scheme.rounded.at("y").codes.ToFloats());
  EXPECT_EQ(
      FakeQuantizedWeights(*m.graph.FindValue("y")->producer(), m.scheme).ToFloats(),
      DequantizeTensor(m.scheme.rounded.at("y").codes, m.scheme.rounded.at("y").params).ToFloats());
}

TEST_F(StaticRoundingTest, TooFewRowsLeaveLayersAlone) {
  const Graph g = MustParse(R"(graph g(x: f32[1,24]) -> (y: f32[1,8]) {
  w = const f32[24,8] ~2
  y = MatMul(x, w)
})");
  const Samples fit = NormalSamples(g, 20, 1);
  StaticModel m = Calibrated(g, fit, {});
  const auto r = RoundStaticWeights(m, g, fit, {backend_.get()});
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->layers, 0);
  EXPECT_TRUE(m.scheme.rounded.empty());
}

TEST_F(StaticRoundingTest, StopsWhenTimeIsOver) {
  const Graph g = MustParse(kProduct);
  const Samples fit = NormalSamples(g, 24, 1);
  StaticModel m = Calibrated(g, fit, {});
  StaticRoundingOptions options;
  options.out_of_time = [] { return true; };
  const auto r = RoundStaticWeights(m, g, fit, {backend_.get()}, options);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_TRUE(m.scheme.rounded.empty());
}

/// A bias that needs a coarser scale than the codes were made for: they are left out.
TEST_F(StaticRoundingTest, CodesDoNotOutliveTheirScale) {
  const Graph g = MustParse(kGemm);
  const Samples fit = NormalSamples(g, 24, 1);
  QuantScheme scheme;
  StaticModel m = Calibrated(g, fit, scheme);
  const Tensor& w = *m.graph.FindValue("w")->constant();
  QuantParams p = ChooseWeightParams(w, 0, scheme.weights);
  for (float& s : p.scale) s /= 2;
  m.scheme.rounded["y"] = {QuantizeTensor(w, p), p};
  const auto with = RewriteStatic(m, g, 24);
  m.scheme.rounded.clear();
  const auto without = RewriteStatic(m, g, 24);
  ASSERT_TRUE(with.ok() && without.ok());
  const auto codes = [](const Graph& graph) {
    return graph.FindValue("y")->producer()->input(1)->producer()->input(0)->constant()->ToFloats();
  };
  EXPECT_EQ(codes(with->graph), codes(without->graph));
}

/// One scale for channels that differ a thousandfold: the small ones are told.
TEST_F(StaticRoundingTest, ChannelsThatRoundToZeroAreTold) {
  const Graph g = MustParse(R"(
graph g(x: f32[1,4]) -> (y: f32[1,3]) {
  w = const f32[4,3] {100, 0.1, 0, 50, 0.1, 0, -70, 0.2, 0, 20, 0.1, 0}
  y = MatMul(x, w)
})");
  const Samples fit = NormalSamples(g, 40, 1);
  QuantScheme scheme;
  for (const bool per_channel : {true, false}) {
    scheme.per_channel = per_channel;
    const StaticModel m = Calibrated(g, fit, scheme);
    const auto r = RewriteStatic(m, g, 40);
    ASSERT_TRUE(r.ok()) << r.status().message();
    int64_t lost = 0;
    for (const QuantizedLayer& l : r->report.layers) lost += l.lost_channels;
    EXPECT_EQ(lost, per_channel ? 0 : 1);
    EXPECT_EQ(std::any_of(r->report.warnings.begin(), r->report.warnings.end(),
                          [](const std::string& text) {
                            return text.find("round to zero") != std::string::npos;
                          }),
              !per_channel);
  }
}

}  // namespace
}  // namespace infer
