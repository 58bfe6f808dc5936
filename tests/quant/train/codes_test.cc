#include "quant/train/codes.h"

#include <filesystem>

#include "lib/ir/editor.h"
#include "lib/ir/verify.h"
#include "quant/accuracy/compare.h"
#include "quant/scheme/quantize.h"
#include "quant/train/adam.h"
#include "quant/train/fine_tune_codes.h"
#include "runtime/cpu/backend.h"
#include "tests/lib/ops/graph_values.h"

namespace infer {
namespace {

constexpr std::string_view kCodesNet = R"(graph net(x: f32[N,1,8,8]) -> (y) {
  w0 = const f32[6,1,3,3] ~1  b0 = const f32[6] ~2
  c0 = Conv(x, w0, b0) {pads=[1,1,1,1]}  a0 = Relu(c0)
  p = MaxPool(a0) {kernel_shape=[2,2], strides=[2,2]}
  w1 = const f32[6,6,3,3] ~3
  c1 = Conv(p, w1) {pads=[1,1,1,1], strides=[2,2]}  a1 = Relu(c1)
  f = Flatten(a1)
  wf = const f32[5,24] ~5  bf = const f32[5] ~6
  z = Gemm(f, wf, bf) {transB=1}  axes = const i64[1] {2}  y = Unsqueeze(z, axes) })";

Graph NetOf(std::string_view text) {
  auto g = ParseGraph(text, TestOps());
  INFER_CHECK(g.ok());
  return *std::move(g);
}

Samples CodeImages(int64_t count) {
  Random random(29);
  std::vector<std::vector<Datum>> runs;
  for (int64_t i = 0; i < count; ++i)
    runs.push_back({Datum(RandomTensor(random, DType::kF32, {1, 1, 8, 8}))});
  return InMemory(std::move(runs));
}

/// Every third weight of w1 is 0.
Graph SparseNet() {
  Graph g = NetOf(kCodesNet);
  Tensor t = g.FindValue("w1")->constant()->Clone();
  for (int64_t i = 0; i < t.num_elements(); i += 3) t.Set(i, 0);
  GraphEditor(g).SetConstant(g.FindValue("w1"), t);
  return g;
}

struct QuantizedNet {
  Graph graph, prepared;
  QuantizeReport report;
};

QuantizedNet Quantized(const Graph& golden, QuantScheme scheme = {}) {
  QuantizedNet q{golden.Clone(), golden.Clone(), {}};
  QuantizeOptions o;
  o.prepare = false;
  o.scheme = std::move(scheme);
  auto report = QuantizeStatic(q.graph, CodeImages(32), *MakeCpuBackend(), o);
  EXPECT_TRUE(report.ok()) << report.status().message();
  if (report.ok()) q.report = *std::move(report);
  return q;
}

FineTuneOptions FewSteps(int64_t steps) {
  FineTuneOptions o;
  o.steps = steps;
  o.rate = 5e-3;  // codes
  o.batch = 8;
  o.stacked = 8;
  o.label_weight = 0;
  o.why_not_stacked = [](const Graph&) { return std::string(); };
  return o;
}

Result<CodesReport> Tune(QuantizedNet& q, const Graph& golden, const FineTuneOptions& o,
                         const QuantScheme& scheme = {}) {
  const auto backend = MakeCpuBackend();
  return FineTuneCodes(q.graph, q.report, q.prepared, scheme.weights, golden, CodeImages(256),
                       *backend, o);
}

double SqnrOf(const Graph& golden, const Graph& candidate, const Samples& samples) {
  const auto backend = MakeCpuBackend();
  const auto report = Compare(golden, *backend, candidate, *backend, samples);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? report->outputs[0].metrics.sqnr_db : -1;
}

void ExpectSameConstants(const Graph& a, const Graph& b) {
  EXPECT_EQ(Print(a), Print(b));
  for (const auto& v : a.values())
    if (v->is_constant()) {
      EXPECT_TRUE(BitEqual(*v->constant(), *b.FindValue(v->name())->constant())) << v->name();
    }
}

std::vector<QuantScheme> Schemes() {
  QuantScheme plain, whole, narrow, u8;
  whole.per_channel = false;
  narrow.weights.reduce_range = true;
  u8.weights = {DType::kU8, true, false};
  return {plain, whole, narrow, u8};
}

TEST(LatentCodes, AreTheQuantizedGraphUntilTheyMove) {
  const Graph golden = SparseNet();
  for (const QuantScheme& scheme : Schemes()) {
    const QuantizedNet q = Quantized(golden, scheme);
    const auto latent = LatentCodes::Of(q.graph, q.prepared, scheme.weights);
    ASSERT_TRUE(latent.ok()) << latent.status().message();
    EXPECT_TRUE(Verify(latent->graph()).ok());
    const auto written = latent->Written(latent->graph());
    ASSERT_TRUE(written.ok());
    ExpectSameConstants(q.graph, *written);
    EXPECT_EQ(latent->Changed(q.graph, *written), 0);
    EXPECT_EQ(latent->codes(), 6 * 9 + 6 * 6 * 9 + 5 * 24);
    // The same numbers: codes are rounded anew from latent weights.
    EXPECT_GT(SqnrOf(q.graph, latent->graph(), CodeImages(8)), 100);
  }
}

/// Codes that another rounder chose, or whose weights are not known.
TEST(LatentCodes, KeepCodesThatAreNotTheNearest) {
  const Graph golden = NetOf(kCodesNet);
  QuantizedNet q = Quantized(golden);
  Value* codes = q.graph.FindValue("w1_quantized");
  Tensor moved = codes->constant()->Clone();
  for (int64_t i = 0; i < moved.num_elements(); ++i)
    moved.SetInt(i, std::clamp<int64_t>(static_cast<int64_t>(moved.At(i)) + i % 5 - 2, -127, 127));
  GraphEditor(q.graph).SetConstant(codes, moved);
  const Graph other = NetOf("graph other(x: f32[2]) -> (y) { y = Relu(x) }");
  for (const Graph* prepared : std::initializer_list<const Graph*>{&q.prepared, &other}) {
    const auto latent = LatentCodes::Of(q.graph, *prepared, QuantScheme().weights);
    ASSERT_TRUE(latent.ok()) << latent.status().message();
    const auto written = latent->Written(latent->graph());
    ASSERT_TRUE(written.ok());
    ExpectSameConstants(q.graph, *written);
  }
}

TEST(FineTuneCodes, ComesNearerToTheGoldenModel) {
  const Graph golden = NetOf(kCodesNet);
  for (const QuantScheme& scheme : Schemes()) {
    QuantizedNet q = Quantized(golden, scheme);
    const Graph before = q.graph.Clone();
    const auto r = Tune(q, golden, FewSteps(150), scheme);
    ASSERT_TRUE(r.ok()) << r.status().message();
    EXPECT_GT(r->training.best_step, 0);
    EXPECT_LT(r->training.loss_after, r->training.loss_before);
    EXPECT_GT(SqnrOf(golden, q.graph, CodeImages(256)), SqnrOf(golden, before, CodeImages(256)));
    EXPECT_GT(r->changed, 0);
    EXPECT_LT(r->changed, r->codes);
    EXPECT_TRUE(Verify(q.graph).ok());
    // Nothing but numbers is another.
    for (const auto& v : before.values()) {
      const Value* now = q.graph.FindValue(v->name());
      ASSERT_NE(now, nullptr) << v->name();
      EXPECT_EQ(ToString(now->type()), ToString(v->type()));
      if (v->name().ends_with("zero_point")) {
        EXPECT_TRUE(BitEqual(*v->constant(), *now->constant())) << v->name();
      }
    }
  }
}

TEST(FineTuneCodes, StaysWithinTheCodesThatWeightsMayHave) {
  QuantScheme narrow;
  narrow.weights.reduce_range = true;
  const Graph golden = NetOf(kCodesNet);
  QuantizedNet q = Quantized(golden, narrow);
  FineTuneOptions o = FewSteps(60);
  o.rate = 0.5;
  ASSERT_TRUE(Tune(q, golden, o, narrow).ok());
  for (const char* name : {"w0_quantized", "w1_quantized", "wf_quantized"}) {
    const Tensor& codes = *q.graph.FindValue(name)->constant();
    for (int64_t i = 0; i < codes.num_elements(); ++i) EXPECT_LE(std::abs(codes.At(i)), 63);
  }
}

TEST(FineTuneCodes, KeepsZerosAndTheScaleOfBiases) {
  const Graph golden = SparseNet();
  QuantizedNet q = Quantized(golden);
  const auto r = Tune(q, golden, FewSteps(150));
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_GT(r->training.best_step, 0);
  const Tensor& weights = *golden.FindValue("w1")->constant();
  const Tensor& codes = *q.graph.FindValue("w1_quantized")->constant();
  int64_t others = 0;
  for (int64_t i = 0; i < codes.num_elements(); ++i) {
    if (weights.At(i) == 0) {
      EXPECT_EQ(codes.At(i), 0) << i;
    }
    others += weights.At(i) != 0 && codes.At(i) != 0 ? 1 : 0;
  }
  EXPECT_GT(others, 0);
  const float x = q.graph.FindValue("x_scale")->constant()->data<float>()[0];
  const auto w = q.graph.FindValue("w0_scale")->constant()->data<float>();
  const auto b = q.graph.FindValue("b0_scale")->constant()->data<float>();
  for (size_t c = 0; c < w.size(); ++c) EXPECT_EQ(b[c], x * w[c]);
}

TEST(FineTuneCodes, TellsTrainedScales) {
  const Graph golden = NetOf(kCodesNet);
  QuantizedNet q = Quantized(golden);
  const QuantizeReport before = q.report;
  const auto r = Tune(q, golden, FewSteps(60));
  ASSERT_TRUE(r.ok() && r->training.best_step > 0);
  bool moved = false;
  for (size_t i = 0; i < before.values.size(); ++i) {
    const QuantizedValue &was = before.values[i], &is = q.report.values[i];
    const Value* scale = q.graph.FindValue(is.name + "_scale");
    if (scale) {
      EXPECT_EQ(is.scale, scale->constant()->data<float>()[0]) << is.name;
    }
    EXPECT_EQ(is.zero_point, was.zero_point);
    moved |= is.scale != was.scale;
  }
  EXPECT_TRUE(moved);
}

TEST(FineTuneCodes, SameBitsForAnyThreadsAndAfterAStop) {
  const Graph golden = SparseNet();
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / "fine_tune_codes.checkpoint").string();
  std::filesystem::remove(path);
  FineTuneOptions o = FewSteps(30);
  o.threads = 1;
  QuantizedNet one = Quantized(golden), two = Quantized(golden), stopped = Quantized(golden);
  ASSERT_TRUE(Tune(one, golden, o).ok());
  o.threads = 2;
  ASSERT_TRUE(Tune(two, golden, o).ok());
  ExpectSameConstants(one.graph, two.graph);
  std::stop_source stop;
  o.checkpoint = path;
  o.stop = stop.get_token();
  o.progress = [&](const std::string&, int64_t done, int64_t) {
    if (done == 13) stop.request_stop();
  };
  EXPECT_EQ(Tune(stopped, golden, o).status().code(), Code::kCancelled);
  ExpectSameConstants(stopped.graph, Quantized(golden).graph);  // as it came
  o.stop = {};
  o.progress = nullptr;
  const auto second = Tune(stopped, golden, o);
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(second->training.resumed_from, 13);
  ExpectSameConstants(stopped.graph, one.graph);
  std::filesystem::remove(path);
}

TEST(FineTuneCodes, NeverWorseOnHeldOutSamples) {
  const Graph golden = NetOf(kCodesNet);
  QuantizedNet q = Quantized(golden);
  FineTuneOptions o = FewSteps(10);
  o.rate = 1e6;  // ruins it, however often it is lowered
  const auto r = Tune(q, golden, o);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->training.best_step, 0);
  EXPECT_EQ(r->changed, 0);
  ExpectSameConstants(q.graph, Quantized(golden).graph);
}

TEST(FineTuneCodes, RefusesWhatHasNoCodes) {
  const Graph golden = NetOf(kCodesNet);
  QuantizedNet q{golden.Clone(), golden.Clone(), {}};
  const auto r = Tune(q, golden, FewSteps(1));
  EXPECT_EQ(r.status().code(), Code::kUnsupported);
  EXPECT_THAT(r.status().message(), ::testing::HasSubstr("no layer has 8-bit weights"));
}

TEST(PacedStep, MovesEachNumberAtItsOwnRate) {
  std::vector<float> w = {1, 1};
  AdamState state(2);
  PacedStep(w, std::vector<float>{3, -2}, state, {}, std::vector<float>{0.5f, 2}, 0.1, 1);
  EXPECT_NEAR(w[0], 0.95, 1e-5);
  EXPECT_NEAR(w[1], 1.2, 1e-5);
}

TEST(ScaleStep, ChangesByAShare) {
  std::vector<float> s = {1, 1e-3f, 5};
  AdamState state(3);
  ScaleStep(s, std::vector<float>{4, -4, 1}, state, std::vector<uint8_t>{1, 1, 0},
            std::vector<float>{1}, 0.1, 1);
  EXPECT_NEAR(s[0], std::exp(-0.1), 1e-5);
  EXPECT_NEAR(s[1], 1e-3 * std::exp(0.1), 1e-8);
  EXPECT_EQ(s[2], 5);
  for (int64_t step = 2; step < 400; ++step)
    ScaleStep(s, std::vector<float>{1, 1, 1}, state, {}, std::vector<float>{1}, 1, step);
  for (const float v : s) EXPECT_GT(v, 0);
}

}  // namespace
}  // namespace infer
