// Layers that compute in f32 and store their weights in integers.
#include <gtest/gtest.h>

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
  // What the user wants in f32 stays as it is.
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

}  // namespace
}  // namespace infer
