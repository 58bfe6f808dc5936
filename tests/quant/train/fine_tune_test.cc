#include "quant/train/fine_tune.h"

#include <filesystem>
#include <fstream>

#include "lib/ir/editor.h"
#include "quant/train/adam.h"
#include "quant/train/check_request.h"
#include "quant/train/parameters.h"
#include "runtime/cpu/backend.h"
#include "tests/lib/ops/graph_values.h"

namespace infer {
namespace {

constexpr std::string_view kNet = R"(graph net(x: f32[N,1,8,8]) -> (y) {
  w0 = const f32[6,1,3,3] ~1  b0 = const f32[6] ~2
  c0 = Conv(x, w0, b0) {pads=[1,1,1,1]}  a0 = Relu(c0)
  p = MaxPool(a0) {kernel_shape=[2,2], strides=[2,2]}
  w1 = const f32[6,6,3,3] ~3
  c1 = Conv(p, w1) {pads=[1,1,1,1], strides=[2,2]}  a1 = Relu(c1)
  f = Flatten(a1)
  wf = const f32[5,24] ~5  bf = const f32[5] ~6
  z = Gemm(f, wf, bf) {transB=1}  k = const f32[] {0.1}  y = Mul(z, k) })";

Graph Parsed(std::string_view text) {
  auto g = ParseGraph(text, TestOps());
  INFER_CHECK(g.ok());
  return *std::move(g);
}

/// `text` with noise on its weights, and every third weight of w1 zero.
Graph Damaged(std::string_view text) {
  Graph g = Parsed(text);
  Random random(17);
  for (const std::string& name : TrainableConstants(g)) {
    Tensor t = g.FindValue(name)->constant()->Clone();
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.Set(i, name == "w1" && i % 3 == 0 ? 0 : t.At(i) + 0.3 * random.Normal());
    GraphEditor(g).SetConstant(g.FindValue(name), t);
  }
  return g;
}

Samples Images(int64_t count) {
  Random random(29);
  std::vector<std::vector<Datum>> runs;
  for (int64_t i = 0; i < count; ++i)
    runs.push_back({Datum(RandomTensor(random, DType::kF32, {1, 1, 8, 8}))});
  Samples s = InMemory(std::move(runs));
  s.labels = [](int64_t i) -> Result<std::vector<int64_t>> { return std::vector<int64_t>{i % 5}; };
  return s;
}

FineTuneOptions Few(int64_t steps) {
  FineTuneOptions o;
  o.steps = steps;
  o.rate = 5e-3;
  o.batch = 8;
  o.stacked = 4;
  o.label_weight = 0;
  o.augment = {true, true};
  o.why_not_stacked = [](const Graph&) { return std::string(); };
  return o;
}

std::vector<Tensor> Weights(const Graph& g) {
  std::vector<Tensor> all;
  for (const std::string& name : TrainableConstants(g))
    all.push_back(*g.FindValue(name)->constant());
  return all;
}

void ExpectSameBits(const Graph& a, const Graph& b) {
  const auto x = Weights(a), y = Weights(b);
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(BitEqual(x[i], y[i])) << i;
}

TEST(TrainableConstants, AreWhatLayersLearn) {
  EXPECT_THAT(TrainableConstants(Parsed(kNet)),
              ::testing::ElementsAre("w0", "b0", "w1", "wf", "bf"));
  EXPECT_THAT(TrainableConstants(Parsed(R"(graph g(x: f32[2,4]) -> (y, t) {
    w = const f32[4,4] ~1  m = MatMul(x, w)  b = const f32[4] ~2  h = Add(m, b)
    s = const f32[4] ~3  o = const f32[4] ~4  n = LayerNormalization(h, s, o)
    p = const f32[4] ~5  q = Add(n, p)  k = const f32[4] ~6  y = Mul(q, k)
    e = const f32[3,4] ~7  i = const i64[1] {1}  t = Gather(e, i) })")),
              ::testing::ElementsAre("w", "b", "s", "o"));
}

TEST(Adam, FirstStepIsOfTheSizeOfTheRate) {
  std::vector<float> w = {1, 1, 1};
  const std::vector<float> g = {0.25f, -8, 3};
  AdamState state(3);
  AdamStep(w, g, state, std::vector<uint8_t>{1, 1, 0}, 0.1, 1);
  EXPECT_NEAR(w[0], 0.9, 1e-5);
  EXPECT_NEAR(w[1], 1.1, 1e-5);
  EXPECT_EQ(w[2], 1);
}

TEST(FineTune, ComesNearTheGoldenModel) {
  const auto backend = MakeCpuBackend();
  const Graph golden = Parsed(kNet);
  Graph model = Damaged(kNet);
  const auto r = FineTune(model, golden, Images(64), *backend, Few(120));
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_LT(r->loss_after, 0.3 * r->loss_before);
  EXPECT_EQ(r->steps, 120);
  EXPECT_EQ(r->stacked, 4);
  EXPECT_EQ(r->training_samples + r->held_out_samples, 64);
  EXPECT_EQ(r->points.size(), 11u);
  EXPECT_GT(r->best_step, 0);
  EXPECT_FALSE(r->with_labels);
}

/// Tokens, a cache of keys and scores; `outputs` names those that are told.
std::string TokenNet(const std::string& outputs, bool flat = false) {
  return Cat("graph net(x: i64[N,6], past: f32[N,3,8]) -> (", outputs, ") {", R"(
    e = const f32[7,8] ~1  h = Gather(e, x)  wq = const f32[8,8] ~2  wk = const f32[8,8] ~3
    q = MatMul(h, wq)  n = MatMul(h, wk)  present = Concat(past, n) {axis=1}
    t = Transpose(present) {perm=[0,2,1]}  s = MatMul(q, t)  p = Softmax(s) {axis=-1}
    o = MatMul(p, present)  w = const f32[8,7] ~4  z = MatMul(o, w)
    d = const i64[2] {-1, 7}  )",
             flat ? "y = Reshape(z, d) }" : "y = Identity(z) }");
}

Samples Tokens(int64_t count) {
  Random random(31);
  std::vector<std::vector<Datum>> runs;
  for (int64_t i = 0; i < count; ++i) {
    Tensor x = Tensor::Zeros(DType::kI64, {1, 6});
    for (int64_t k = 0; k < 6; ++k) x.Set(k, static_cast<double>(random.Below(7)));
    runs.push_back({Datum(std::move(x)), Datum(RandomTensor(random, DType::kF32, {1, 3, 8}))});
  }
  return InMemory(std::move(runs));
}

/// The scores of a token are a row of classes, as those of a sample are; a cache that the scores
/// are computed from does not count beside them.
TEST(FineTune, RowsOfTokensAreRowsAndCachesDoNotCount) {
  const auto backend = MakeCpuBackend();
  FineTuneOptions o = Few(60);
  o.augment = {};
  std::vector<FineTuneReport> reports;
  for (const std::string& text :
       {TokenNet("y", true), TokenNet("y"), TokenNet("y, present"), TokenNet("present, y")}) {
    Graph model = Damaged(text);
    const auto r = FineTune(model, Parsed(text), Tokens(48), *backend, o);
    ASSERT_TRUE(r.ok()) << r.status().message();
    EXPECT_LT(r->loss_after, 0.7 * r->loss_before) << text;
    reports.push_back(*r);
  }
  for (const FineTuneReport& r : reports) {
    EXPECT_NEAR(r.loss_before, reports[0].loss_before, 1e-4 * reports[0].loss_before);
    EXPECT_NEAR(r.loss_after, reports[0].loss_after, 1e-3 * reports[0].loss_after);
  }
}

/// A layer times 16 and its reader over 16 are the same model, behind Relu as well.
TEST(FineTune, TheSizeOfWeightsDoesNotMatter) {
  constexpr std::string_view kPair = R"(graph g(x: f32[1,1,8,8]) -> (y) {
    f = Flatten(x)  wa = const f32[64,16] ~1  ba = const f32[16] ~2  h = Gemm(f, wa, ba)
    r = Relu(h)  wb = const f32[16,5] ~3  bb = const f32[5] ~4  y = Gemm(r, wb, bb) })";
  const auto backend = MakeCpuBackend();
  const Graph golden = Parsed(kPair);
  const Graph damaged = Damaged(kPair);
  Graph plain = damaged.Clone(), scaled = damaged.Clone();
  for (const auto& [name, factor] : {std::pair{"wa", 16.0}, {"ba", 16.0}, {"wb", 1.0 / 16}}) {
    Tensor t = scaled.FindValue(name)->constant()->Clone();
    for (int64_t i = 0; i < t.num_elements(); ++i) t.Set(i, factor * t.At(i));
    GraphEditor(scaled).SetConstant(scaled.FindValue(name), std::move(t));
  }
  const auto a = FineTune(plain, golden, Images(64), *backend, Few(60));
  const auto b = FineTune(scaled, golden, Images(64), *backend, Few(60));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NEAR(b->loss_before, a->loss_before, 1e-4 * a->loss_before);
  EXPECT_LT(a->loss_after, 0.8 * a->loss_before);
  EXPECT_NEAR(b->loss_after, a->loss_after, 0.01 * a->loss_after);
}

TEST(FineTune, KeepsZeros) {
  const auto backend = MakeCpuBackend();
  const Graph golden = Parsed(kNet);
  Graph model = Damaged(kNet);
  FineTuneOptions o = Few(20);
  o.keep_zeros = true;
  ASSERT_TRUE(FineTune(model, golden, Images(24), *backend, o).ok());
  const Tensor before = *Damaged(kNet).FindValue("w1")->constant();
  const Tensor after = *model.FindValue("w1")->constant();
  int64_t moved = 0;
  for (int64_t i = 0; i < after.num_elements(); ++i) {
    if (before.At(i) == 0) {
      EXPECT_EQ(after.At(i), 0) << i;
    }
    moved += before.At(i) != after.At(i);
  }
  EXPECT_GT(moved, after.num_elements() / 2);
}

TEST(FineTune, SameBitsForAnyThreadsAndForStackedSamples) {
  const auto backend = MakeCpuBackend();
  const Graph golden = Parsed(kNet);
  Graph one = Damaged(kNet), two = Damaged(kNet), alone = Damaged(kNet);
  FineTuneOptions o = Few(8);
  o.threads = 1;
  const auto a = FineTune(one, golden, Images(24), *backend, o);
  o.threads = 2;
  ASSERT_TRUE(a.ok() && FineTune(two, golden, Images(24), *backend, o).ok());
  ExpectSameBits(one, two);
  // One at a time sums in another order: the same but for rounding.
  o.why_not_stacked = nullptr;
  const auto b = FineTune(alone, golden, Images(24), *backend, o);
  ASSERT_TRUE(b.ok()) << b.status().message();
  EXPECT_EQ(b->stacked, 1);
  EXPECT_FALSE(b->why_not_stacked.empty());
  EXPECT_NEAR(b->points.back().training, a->points.back().training,
              1e-3 * a->points.back().training);
}

// Files of a fixed batch flatten by a Reshape to [1, n]: their samples stack as well.
TEST(FineTune, SamplesStackThroughReshapesOfOneRow) {
  for (const std::string_view shape : {"{1, 24}", "{1, -1}"}) {
    std::string text(kNet);
    text.replace(text.find("f = Flatten(a1)"), 15,
                 Cat("s = const i64[2] ", shape, "  f = Reshape(a1, s)"));
    text.replace(text.find("[N,"), 3, "[1,");
    const auto open = WithOpenRows(Parsed(text));
    ASSERT_TRUE(open.ok()) << open.status().message();
    EXPECT_EQ(open->outputs()[0]->shape().ToString(), "[stacked_rows,5]") << shape;
  }
}

TEST(FineTune, TrainsOnLabels) {
  const auto backend = MakeCpuBackend();
  const Graph golden = Parsed(kNet);
  Graph with = Damaged(kNet), without = Damaged(kNet);
  FineTuneOptions o = Few(10);
  o.label_weight = 1;
  const auto a = FineTune(with, golden, Images(24), *backend, o);
  ASSERT_TRUE(a.ok()) << a.status().message();
  EXPECT_TRUE(a->with_labels);
  o.label_weight = 0;
  const auto b = FineTune(without, golden, Images(24), *backend, o);
  ASSERT_TRUE(b.ok());
  // The cross-entropy of labels that the model does not know is large.
  EXPECT_GT(a->loss_before, b->loss_before + 0.1);
}

TEST(FineTune, GoesOnFromACheckpoint) {
  const auto backend = MakeCpuBackend();
  const Graph golden = Parsed(kNet);
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / "fine_tune.checkpoint").string();
  std::filesystem::remove(path);
  Graph whole = Damaged(kNet), stopped = Damaged(kNet);
  FineTuneOptions o = Few(30);
  ASSERT_TRUE(FineTune(whole, golden, Images(24), *backend, o).ok());
  // Stopped in the middle, then the same again.
  std::stop_source stop;
  o.checkpoint = path;
  o.stop = stop.get_token();
  o.progress = [&](const std::string&, int64_t done, int64_t) {
    if (done == 13) stop.request_stop();
  };
  const auto first = FineTune(stopped, golden, Images(24), *backend, o);
  EXPECT_EQ(first.status().code(), Code::kCancelled);
  ExpectSameBits(stopped, Damaged(kNet));  // as it came
  o.stop = {};
  o.progress = nullptr;
  const auto second = FineTune(stopped, golden, Images(24), *backend, o);
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(second->resumed_from, 13);
  EXPECT_EQ(second->steps, 30);
  ExpectSameBits(stopped, whole);
  // Another seed is another run.
  Graph other = Damaged(kNet);
  o.seed = 1;
  const auto third = FineTune(other, golden, Images(24), *backend, o);
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(third->resumed_from, 0);
  // Damaged.
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(200);
  file.put('\x55');
  file.close();
  const auto fourth = FineTune(other, golden, Images(24), *backend, o);
  EXPECT_EQ(fourth.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(fourth.status().message(), ::testing::HasSubstr("damaged"));
  std::filesystem::remove(path);
}

TEST(FineTune, NeverWorseOnHeldOutSamples) {
  const auto backend = MakeCpuBackend();
  const Graph golden = Parsed(kNet);
  Graph model = Parsed(kNet);
  FineTuneOptions o = Few(10);
  o.rate = 1e6;  // ruins it, however often it is lowered
  const auto r = FineTune(model, golden, Images(24), *backend, o);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->best_step, 0);
  EXPECT_LE(r->loss_after, r->loss_before);
  ExpectSameBits(model, golden);
}

TEST(FineTune, RefusesInOneLine) {
  const auto backend = MakeCpuBackend();
  const Graph golden = Parsed(kNet);
  const auto refusal = [&](std::string_view text, int64_t samples, FineTuneOptions o) {
    Graph model = Parsed(text);
    const auto r = FineTune(model, Parsed(text), Images(samples), *backend, o);
    EXPECT_FALSE(r.ok());
    EXPECT_EQ(r.status().message().find('\n'), std::string::npos);
    return std::string(r.status().message());
  };
  EXPECT_THAT(refusal(kNet, 8, Few(1)), ::testing::HasSubstr("at least 16 calibration samples"));
  FineTuneOptions none = Few(0);
  EXPECT_THAT(refusal(kNet, 24, none), ::testing::HasSubstr("at least one step"));
  EXPECT_THAT(refusal("graph g(x: f32[N,1,8,8]) -> (y) { y = Relu(x) }", 24, Few(1)),
              ::testing::HasSubstr("nothing to train"));
  EXPECT_THAT(refusal(R"(graph g(x: f32[N,1,8,8]) -> (y) { w = const f32[2,1,3,3] ~1
                c = Conv(x, w)  y = Floor(c) })",
                      24, Few(1)),
              ::testing::HasSubstr("no gradient through Floor"));
}

TEST(FineTune, IsRefusedBeforeAnythingIsDone) {
  const auto refusal = [](std::string_view text, const Samples& samples) {
    return std::string(CheckFineTune(Parsed(text), samples, Few(1)).message());
  };
  EXPECT_EQ(refusal(kNet, Images(16)), "");
  EXPECT_THAT(refusal(kNet, Images(15)), ::testing::HasSubstr("at least 16 calibration samples"));
  EXPECT_THAT(refusal("graph g(x: f32[N,1,8,8]) -> (y) { y = Relu(x) }", Images(16)),
              ::testing::HasSubstr("nothing to train"));
  EXPECT_THAT(refusal(R"(graph g(x: f32[N,1,8,8]) -> (y) { w = const f32[2,1,3,3] ~1
                c = Conv(x, w)  y = Floor(c) })",
                      Images(16)),
              ::testing::HasSubstr("no gradient through Floor"));
  Samples uneven = Images(20);
  uneven.get = [images = Images(20)](int64_t i) -> Result<std::vector<Datum>> {
    if (i < 19) return images.get(i);
    return std::vector<Datum>{Tensor::Zeros(DType::kF32, {1, 1, 9, 9})};
  };
  EXPECT_THAT(refusal(R"(graph g(x: f32[N,1,H,W]) -> (y) { w = const f32[2,1,3,3] ~1
                y = Conv(x, w) })",
                      uneven),
              ::testing::HasSubstr("sample 19 has other extents"));
}

TEST(SampleOrder, SeesEverySampleInEveryEpoch) {
  SampleOrder order(7, 3, {true, true});
  std::set<int64_t> seen;
  bool moved = false, mirrored = false;
  for (int64_t at = 0; at < 70; ++at) {
    const DrawnSample s = order.At(at);
    seen.insert(s.sample);
    moved |= s.down != 0;
    mirrored |= s.mirrored;
    if (at % 7 == 6) {
      EXPECT_EQ(seen.size(), 7u);
      seen.clear();
    }
  }
  EXPECT_TRUE(moved && mirrored);
  SampleOrder again(7, 3, {true, true});
  EXPECT_EQ(again.At(69).sample, order.At(69).sample);
}

TEST(StackedInputs, MoveImages) {
  Tensor image = Tensor::Zeros(DType::kF32, {1, 1, 8, 8});
  image.Set(8 * 3 + 2, 1);
  const Samples samples = InMemory({{Datum(image)}});
  const auto at = [&](DrawnSample s) {
    const auto stacked = StackedInputs(samples, std::vector<DrawnSample>{s});
    EXPECT_TRUE(stacked.ok());
    const Tensor& t = (*stacked)[0].tensor();
    for (int64_t i = 0; i < 64; ++i)
      if (t.At(i) == 1) return i;
    return int64_t{-1};
  };
  EXPECT_EQ(at({0, 0, 0, false}), 8 * 3 + 2);
  EXPECT_EQ(at({0, 1000, 0, false}), 8 * 4 + 2);
  EXPECT_EQ(at({0, 0, -1000, false}), 8 * 3 + 1);
  EXPECT_EQ(at({0, 0, 0, true}), 8 * 3 + 5);
}

}  // namespace
}  // namespace infer
