/// Weights that bodies of control flow capture: quantized in each body, stored once.
#include "quant/convert/bodies.h"

#include <algorithm>

#include "lib/ir/verify.h"
#include "quant/accuracy/compare.h"
#include "quant/convert/dynamic.h"
#include "quant/convert/narrow.h"
#include "quant/scheme/quantize.h"
#include "quant/weight_only/weight_only.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

using testing::HasSubstr;

/// As a merged decoder: both branches multiply by w, one by v, too, and a product stands around.
constexpr std::string_view kMerged = R"(graph g(c: bool[], x: f32[3,64]) -> (y) {
  w = const f32[64,64] ~1
  v = const f32[64,64] ~2
  o = const f32[64,32] ~3
  m = If(c) [x, w, v] {then_branch=graph(x, w, v) -> (b) { a = MatMul(x, w) b = Relu(a) },
                       else_branch=graph(x, w, v) -> (b) { a = MatMul(x, v) t = Tanh(a) b = MatMul(t, w) }}
  y = MatMul(m, o) })";

const Node& IfOf(const Graph& g) {
  return **std::find_if(g.nodes().begin(), g.nodes().end(),
                        [](const auto& n) { return n->Is("If"); });
}

int64_t BytesIn(const Graph& g) {
  int64_t bytes = 0;
  for (const auto& [name, body] : IfOf(g).subgraphs()) bytes += ConstantBytes(*body);
  return bytes;
}

/// Both branches, on the same random rows.
void ExpectNear(const Graph& golden, const Graph& candidate, double least_db) {
  for (const bool c : {false, true}) {
    Samples samples;
    samples.count = 2;
    samples.get = [c](int64_t i) -> Result<std::vector<Datum>> {
      Random random(static_cast<uint64_t>(i) + 5);
      Tensor x(DType::kF32, {3, 64});
      for (float& v : x.mutable_data<float>()) v = static_cast<float>(random.Normal());
      Tensor condition(DType::kBool, {});
      condition.Set(0, c ? 1 : 0);
      return std::vector<Datum>{condition, x};
    };
    const auto backend = MakeReferenceBackend();
    const auto report = Compare(golden, *backend, candidate, *backend, samples);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_GT(report->outputs[0].metrics.sqnr_db, least_db) << c;
  }
}

/// Four products are quantized; `weight_bytes`: of one weight.
void ExpectQuantized(const Result<QuantizeReport>& made, const Graph& golden, const Graph& g,
                     int64_t most_bytes, int64_t weight_bytes, double least_db) {
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_TRUE(Verify(g).ok()) << Verify(g).message();
  const auto products = std::count_if(
      made->layers.begin(), made->layers.end(),
      [](const QuantizedLayer& l) { return l.op == "MatMul" && l.precision != "f32"; });
  EXPECT_EQ(products, 4);
  EXPECT_EQ(made->weight_bytes_before, ConstantBytes(golden));
  EXPECT_LE(made->weight_bytes_after, most_bytes);
  // Weights that both branches have lie around them.
  EXPECT_LT(BytesIn(g), 64 * 64 * weight_bytes + 1024);
  ExpectNear(golden, g, least_db);
}

TEST(QuantizeBodies, WeightsOfFewBits) {
  const Graph golden = MustParse(kMerged);
  Graph g = golden.Clone();
  WeightOnlyOptions options;
  options.scheme.grid = {8, 32, true};
  ExpectQuantized(QuantizeWeightOnly(g, options), golden, g, 13000, 1, 35);
}

TEST(QuantizeBodies, DynamicRanges) {
  const Graph golden = MustParse(kMerged);
  Graph g = golden.Clone();
  ExpectQuantized(QuantizeDynamic(g), golden, g, 12000, 1, 30);
}

TEST(QuantizeBodies, Halves) {
  const Graph golden = MustParse(kMerged);
  Graph g = golden.Clone();
  ExpectQuantized(NarrowFloats(g, {}, *MakeReferenceBackend()), golden, g, 20500, 2, 60);
}

/// Both branches are quantized, and the weight that they share is there once.
TEST(QuantizeBodies, SharedWeightsAreStoredOnce) {
  Graph g = MustParse(kMerged);
  const int64_t before = ConstantBytes(g);
  ASSERT_TRUE(QuantizeDynamic(g).ok());
  EXPECT_LT(ConstantBytes(g), 0.3 * static_cast<double>(before));
}

TEST(QuantizeBodies, PatternsChooseInBodies) {
  const Graph golden = MustParse(kMerged);
  Graph g = golden.Clone();
  DynamicOptions options;
  options.include = {ParseNodePattern("t")};  // the value of no product
  const Status s = QuantizeDynamic(g, options).status();
  EXPECT_EQ(s.code(), Code::kUnsupported);
  EXPECT_THAT(s.message(), HasSubstr("(in a body: "));
  options.include = {ParseNodePattern("nobody")};
  EXPECT_EQ(QuantizeDynamic(g, options).status().code(), Code::kInvalidArgument);
  options.include = {};
  options.exclude = {ParseNodePattern("y")};
  const auto made = QuantizeDynamic(g, options);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->integer_layers, 3);
}

TEST(QuantizeBodies, LoopsToo) {
  const Graph golden = MustParse(R"(graph g(x: f32[3,64]) -> (y) {
    w = const f32[64,64] ~1
    n = const i64[] {3}
    c = const bool[] {1}
    y = Loop(n, c, x) [w] {body=graph(i: i64[], k: bool[], s: f32[3,64], w) -> (k2, s2) {
      k2 = Identity(k) m = MatMul(s, w) s2 = Tanh(m) }} })");
  Graph g = golden.Clone();
  const auto made = QuantizeDynamic(g);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->integer_layers, 1);
  ASSERT_TRUE(Verify(g).ok()) << Verify(g).message();
  EXPECT_LT(ConstantBytes(g), 0.3 * static_cast<double>(ConstantBytes(golden)));
}

/// A mode that does not reach into bodies says where the layers are.
TEST(QuantizeBodies, StaticRangesSayWhy) {
  Graph g = MustParse(R"(graph g(c: bool[], x: f32[3,64]) -> (y) {
    w = const f32[64,64] ~1
    y = If(c) [x, w] {then_branch=graph(x, w) -> (b) { b = MatMul(x, w) },
                      else_branch=graph(x, w) -> (b) { b = Relu(x) }} })");
  Samples samples;
  samples.count = 1;
  samples.get = [](int64_t) -> Result<std::vector<Datum>> {
    return std::vector<Datum>{Tensor::Zeros(DType::kBool, {}), Tensor::Zeros(DType::kF32, {3, 64})};
  };
  const auto made = QuantizeStatic(g, samples, *MakeReferenceBackend());
  EXPECT_EQ(made.status().code(), Code::kUnsupported);
  EXPECT_THAT(made.status().message(), HasSubstr("outside of the bodies"));
}

}  // namespace
}  // namespace infer
