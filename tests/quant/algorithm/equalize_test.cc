#include "quant/algorithm/equalize.h"

#include "lib/ir/eval.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

/// Two convolutions whose middle channels differ by a factor of 100; `between` joins c and r.
Graph Unequal(std::string_view between, std::string_view second = "Conv(r, v)") {
  return MustParse(Cat(R"(
graph g(x: f32[1,2,4,4]) -> (y: f32[1,2,4,4]) {
  w = const f32[2,2,1,1] {1, -0.5, 60, 90}
  b = const f32[2] {0.5, -30}
  v = const f32[2,2,1,1] {1, 0.02, -0.7, 0.01}
  c = Conv(x, w, b)
  )",
                       between, "\n  y = ", second, "\n}\n"));
}

struct Equalized {
  StaticModel model;
  int pairs = 0;
};

Equalized Equalize(const Graph& g, const Samples& samples, const EqualizeOptions& options = {}) {
  const auto backend = MakeReferenceBackend();
  Equalized e{{g.Clone(), {}, {}}};
  const auto n = EqualizeLayers(e.model, g, samples, {backend.get()}, options);
  EXPECT_TRUE(n.ok()) << n.status().message();
  EXPECT_TRUE(Verify(e.model.graph).ok());
  e.pairs = n.ok() ? *n : -1;
  return e;
}

double Furthest(const Graph& a, const Graph& b, const Samples& samples) {
  double d = 0, top = 0;
  for (int64_t i = 0; i < samples.count; ++i) {
    const auto in = samples.get(i);
    const auto x = Evaluate(a, *in), y = Evaluate(b, *in);
    EXPECT_TRUE(x.ok() && y.ok());
    const auto p = (*x)[0].tensor().ToFloats(), q = (*y)[0].tensor().ToFloats();
    for (size_t k = 0; k < p.size(); ++k) {
      d = std::max(d, std::fabs(static_cast<double>(p[k]) - static_cast<double>(q[k])));
      top = std::max(top, std::fabs(static_cast<double>(p[k])));
    }
  }
  return d / top;
}

TEST(EqualizeLayers, TheFunctionStaysWhatItWas) {
  for (const char* between : {"r = Relu(c)", "r = Identity(c)", "r = LeakyRelu(c) {alpha = 0.1}",
                              "s = const f32[2,1,1] {0.1, 0.3}\n  r = PRelu(c, s)",
                              "a = Relu(c)\n  r = MaxPool(a) {kernel_shape = [1, 1]}"}) {
    const Graph g = Unequal(between);
    const Samples samples = NormalSamples(g, 4, 1);
    const Equalized e = Equalize(g, samples);
    const bool known = std::string_view(between).find("Identity") == std::string_view::npos;
    EXPECT_EQ(e.pairs, known ? 1 : 0) << between;
    EXPECT_LT(Furthest(g, e.model.graph, NormalSamples(g, 4, 2)), 1e-6) << between;
  }
}

TEST(EqualizeLayers, ChannelsComeCloser) {
  const Graph g = Unequal("r = Relu(c)");
  const Samples samples = NormalSamples(g, 8, 1);
  const auto backend = MakeReferenceBackend();
  const auto before = ObserveChannels(g, {{"r", 1}}, samples, {backend.get()});
  const Equalized e = Equalize(g, samples);
  const auto after = ObserveChannels(e.model.graph, {{"r", 1}}, samples, {backend.get()});
  ASSERT_TRUE(before.ok() && after.ok());
  const auto ratio = [](const ChannelStats& s) { return s.hi[1] / s.hi[0]; };
  EXPECT_GT(ratio(before->at("r")), 30);
  EXPECT_LT(ratio(after->at("r")), 12);
}

/// Channel 1 reaches the bound of 6 and stays; channel 0 does not, and comes up to it.
TEST(EqualizeLayers, OnlyChannelsThatAClipDoesNotCutAreScaled) {
  const Graph g = Unequal("lo = const f32[] {0}\n  hi = const f32[] {6}\n  r = Clip(c, lo, hi)");
  const Samples samples = NormalSamples(g, 4, 1);
  const Equalized e = Equalize(g, samples);
  EXPECT_EQ(e.pairs, 1);
  EXPECT_LT(Furthest(g, e.model.graph, samples), 1e-6);
  const auto backend = MakeReferenceBackend();
  const auto before = ObserveChannels(g, {{"r", 1}}, samples, {backend.get()});
  const auto after = ObserveChannels(e.model.graph, {{"r", 1}}, samples, {backend.get()});
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(before->at("r").hi[1], 6);
  EXPECT_EQ(after->at("r").hi[1], 6);
  EXPECT_LT(before->at("r").hi[0], 4.5);
  EXPECT_NEAR(after->at("r").hi[0], 6 / 1.25, 1e-3);
}

TEST(EqualizeLayers, AClipThatCutsAllIsNoLaw) {
  const Graph g = Unequal("lo = const f32[] {0}\n  hi = const f32[] {0.5}\n  r = Clip(c, lo, hi)");
  EXPECT_EQ(Equalize(g, NormalSamples(g, 4, 1)).pairs, 0);
  const Graph h = Unequal("lo = const f32[] {-1}\n  hi = const f32[] {60}\n  r = Clip(c, lo, hi)");
  EXPECT_EQ(Equalize(h, NormalSamples(h, 4, 1)).pairs, 0);
}

TEST(EqualizeLayers, AnotherReaderForbids) {
  const Graph g = Unequal("r = Relu(c)\n  q = Conv(r, v)", "Add(q, r)");
  EXPECT_EQ(Equalize(g, NormalSamples(g, 4, 1)).pairs, 0);
}

TEST(EqualizeLayers, DepthwiseReadersTakeAllOfTheRange) {
  const Graph g = MustParse(R"(
graph g(x: f32[1,2,4,4]) -> (y: f32[1,2,4,4]) {
  w = const f32[2,2,1,1] {1, -0.5, 60, 90}
  v = const f32[2,1,3,3] {1, 2, 1, 0, 1, 0, -1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
  c = Conv(x, w)
  r = Relu(c)
  y = Conv(r, v) {group = 2, pads = [1, 1, 1, 1]}
}
)");
  const Samples samples = NormalSamples(g, 8, 1);
  EqualizeOptions options;
  options.depthwise_only = true;
  const Equalized e = Equalize(g, samples, options);
  ASSERT_EQ(e.pairs, 1);
  const auto backend = MakeReferenceBackend();
  const auto after = ObserveChannels(e.model.graph, {{"r", 1}}, samples, {backend.get()});
  ASSERT_TRUE(after.ok());
  EXPECT_NEAR(after->at("r").hi[1] / after->at("r").hi[0], 1, 1e-4);
  EXPECT_LT(Furthest(g, e.model.graph, samples), 1e-6);
}

/// The bias keeps channel 0 far above zero: half of its floor moves behind the Relu.
TEST(EqualizeLayers, HighBiasMovesOn) {
  const Graph g = MustParse(R"(
graph g(x: f32[1,1,8,8]) -> (y: f32[1,1,8,8]) {
  w = const f32[2,1,1,1] {1, 1}
  b = const f32[2] {40, 0}
  v = const f32[1,2,1,1] {1, 1}
  c = Conv(x, w, b)
  r = Relu(c)
  y = Conv(r, v)
}
)");
  const Samples samples = NormalSamples(g, 8, 1);
  EqualizeOptions options;
  options.activation_share = 0;  // equal weights: factors of 1
  const Equalized e = Equalize(g, samples, options);
  const auto backend = MakeReferenceBackend();
  const auto after = ObserveChannels(e.model.graph, {{"r", 1}}, samples, {backend.get()});
  ASSERT_TRUE(after.ok());
  EXPECT_NEAR(after->at("r").mean[0], 22, 2);
  EXPECT_LT(Furthest(g, e.model.graph, samples), 1e-6);
}

}  // namespace
}  // namespace infer
