// Layers that compute in f32 and store their weights in integers.
#include <gtest/gtest.h>

#include <algorithm>

#include "lib/ir/verify.h"
#include "quant/recipe/keep_float.h"
#include "runtime/reference/backend.h"
#include "tests/quant/recipe/calibrated.h"

namespace infer {
namespace {

/// A calibrated model whose layer "c" computes in f32, and what it loses on held-out samples before
/// anything is stored.
struct KeptLayer {
  Graph g;
  StaticModel m;
  Result<HeldOut> held;
  Result<HeldOutError> before;

  KeptLayer(Graph graph, const Backend& backend)
      : g(std::move(graph)),
        m(Calibrated(g, NormalSamples(g, 16, 1), backend)),
        held(HeldOut::Make(g, NormalSamples(g, 8, 2), backend, {})),
        before(held.ok() ? Error() : held.status()) {}

  /// FindWeightsToStore where the held-out error shall be below `db`.
  Result<StoreWeightsResult> Find(double db) const {
    StoreWeightsOptions options;
    options.target.db = db;
    return FindWeightsToStore(m, g, *held, *before, options);
  }

 private:
  Result<HeldOutError> Error() {
    m.scheme.keep["c"] = "it is kept";
    INFER_ASSIGN(const auto rewritten, RewriteStatic(m, g, 16));
    return held->Measure(rewritten.graph);
  }
};

/// A layer that must compute in f32 stores its weights in integers; the model stays the same but
/// for that.
TEST(StoreWeights, OfLayersThatComputeInF32) {
  const auto backend = MakeReferenceBackend();
  KeptLayer kept(MustParse(Cat(R"(
graph g(x: f32[1,16,6,6]) -> (y: f32[1,32,6,6]) {
  w = const f32[32,16,1,1] {)",
                               Weights(512, 1), R"(}
  v = const f32[32,32,1,1] {)",
                               Weights(1024, 2), R"(}
  c = Conv(x, w)
  r = Relu(c)
  y = Conv(r, v)
}
)")),
                 *backend);
  ASSERT_TRUE(kept.before.ok()) << kept.before.status().message();
  const auto found = kept.Find(25);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->layers, 1u);
  EXPECT_EQ(found->store, std::set<std::string>{"c"});
  kept.m.scheme.store = found->store;
  const auto r = RewriteStatic(kept.m, kept.g, 16);
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_TRUE(Verify(r->graph).ok());
  EXPECT_EQ(r->report.layers[0].precision, "int8-weights");
  EXPECT_EQ(r->report.layers[0].reason, "it is kept");
  ExpectCounted(r->report);
  EXPECT_EQ(r->report.layers[0].weight_bytes_before, 4 * 512);
  EXPECT_LT(r->report.layers[0].weight_bytes_after, 4 * 512 * 0.32);
  const auto after = kept.held->Measure(r->graph);
  ASSERT_TRUE(after.ok());
  EXPECT_GT(after->worst, kept.before->worst * 0.999);
  EXPECT_GT(Decibels(after->sure_worst), 25);
  // Where the error may not grow, it does not.
  StoreWeightsOptions options;
  options.target.db = 200;
  options.growth = 1;
  kept.m.scheme.store.clear();
  HeldOutError half = *kept.before;
  half.noise /= 2;
  const auto strict = FindWeightsToStore(kept.m, kept.g, *kept.held, half, options);
  ASSERT_TRUE(strict.ok());
  EXPECT_TRUE(strict->store.empty());
  // A file of opset 12, whose DequantizeLinear has no scale per channel, stores them as well.
  kept.m.scheme.has_channel_scales = false;
  const auto stored = kept.Find(25);
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(stored->store, std::set<std::string>{"c"});
  kept.m.scheme.has_channel_scales = true;
  // A layer that the user wants in f32 stays as it is.
  kept.m.scheme.exclude.push_back({NodePattern::Kind::kValue, "c"});
  const auto excluded = FindWeightsToStore(kept.m, kept.g, *kept.held, *kept.before, {});
  ASSERT_TRUE(excluded.ok());
  EXPECT_EQ(excluded->layers, 0u);
}

/// Weights that a layer in INT8 and one in f32 share, as layers that are applied several times do:
/// the one in f32 stores them, too, and they do not stand in the file twice.
TEST(StoreWeights, SharedWithALayerInInt8) {
  const auto backend = MakeReferenceBackend();
  KeptLayer kept(MustParse(Cat(R"(
graph g(x: f32[1,16,6,6]) -> (y: f32[1,16,6,6]) {
  w = const f32[16,16,2,2] {)",
                               Weights(1024, 1), R"(}
  c = Conv(x, w) {pads=[1,1,0,0]}
  r = Relu(c)
  y = Conv(r, w) {pads=[1,1,0,0]}
}
)")),
                 *backend);
  ASSERT_TRUE(kept.before.ok()) << kept.before.status().message();
  const auto found = kept.Find(20);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->store, std::set<std::string>{"c"});
  kept.m.scheme.store = found->store;
  const auto r = RewriteStatic(kept.m, kept.g, 16);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_LT(r->report.weight_bytes_after, 4 * 1024);
}

/// A convolution in f32 between one in INT8 and a result in f32: ONNX Runtime has no integer form
/// of it and would dequantize its weights in every run, so they are floats when the file is loaded.
TEST(StoreWeights, BehindALayerInInt8) {
  const auto backend = MakeReferenceBackend();
  KeptLayer kept(MustParse(Cat(R"(
graph g(x: f32[1,16,6,6]) -> (y: f32[1,16,6,6]) {
  w = const f32[16,16,2,2] {)",
                               Weights(1024, 1), R"(}
  v = const f32[16,16,1,1] {)",
                               Weights(256, 2), R"(}
  b = Conv(x, w) {pads=[1,1,0,0]}
  r = Relu(b)
  c = Conv(r, w) {pads=[1,1,0,0]}
  t = Tanh(c)
  y = Conv(t, v)
}
)")),
                 *backend);
  ASSERT_TRUE(kept.before.ok()) << kept.before.status().message();
  kept.m.scheme.keep["y"] = "it is kept";
  kept.m.scheme.store = {"c"};
  const auto r = RewriteStatic(kept.m, kept.g, 16);
  ASSERT_TRUE(r.ok()) << r.status().message();
  const auto makes_weights = [&r](std::string_view result) -> std::string_view {
    for (const auto& n : r->graph.nodes())
      if (n->Is("Conv") && n->output(0)->name() == result)
        return n->input(1)->producer() ? n->input(1)->producer()->op() : "const";
    return "no such layer";
  };
  EXPECT_EQ(makes_weights("c"), "Mul");
  const auto integer =
      std::find_if(r->report.layers.begin(), r->report.layers.end(),
                   [](const QuantizedLayer& l) { return l.precision == "int8-weights"; });
  ASSERT_NE(integer, r->report.layers.end());
}

/// A large table of Gather, as models of text have for words: the rows that are looked up are
/// multiplied, and nothing makes f32 of the others.
TEST(StoreWeights, TablesOfGather) {
  const auto backend = MakeReferenceBackend();
  const auto model = [](const std::string& rows) {
    return MustParse(Cat("graph g(x: f32[1,8]) -> (y: f32[1,8,32]) { m = const f32[] {", "100} ",
                         "s = Mul(x, m)  j = Cast(s) {to=7}  t = const f32[", rows, ",32] ~1 ",
                         "a = Gather(t, j)  v = const f32[32,32] ~2  y = MatMul(a, v) }"));
  };
  KeptLayer kept(model("1024"), *backend);
  ASSERT_TRUE(kept.before.ok()) << kept.before.status().message();
  const auto found = kept.Find(25);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->store, std::set<std::string>{"a"});
  kept.m.scheme.store = found->store;
  const auto r = RewriteStatic(kept.m, kept.g, 16);
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_TRUE(Verify(r->graph).ok());
  const auto row = std::ranges::find(r->report.layers, "Gather", &QuantizedLayer::op);
  ASSERT_NE(row, r->report.layers.end());
  EXPECT_EQ(row->precision, "int8-weights");
  EXPECT_EQ(row->weight_bytes_before, 4 * 1024 * 32);
  EXPECT_LT(row->weight_bytes_after, 4 * 1024 * 32 * 0.3);
  ExpectCounted(r->report);
  for (const auto& v : r->graph.values())
    if (v->is_constant() && v->dtype() == DType::kF32) {
      EXPECT_LT(v->constant()->num_elements(), 1024 * 32) << v->name();
    }
  const auto after = kept.held->Measure(r->graph);
  ASSERT_TRUE(after.ok());
  EXPECT_GT(Decibels(after->sure_worst), 25);
  KeptLayer small(model("400"), *backend);
  ASSERT_TRUE(small.before.ok());
  const auto none = small.Find(25);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->layers, 0u) << "51 KB: its nodes would cost more than they spare";
}

}  // namespace
}  // namespace infer
