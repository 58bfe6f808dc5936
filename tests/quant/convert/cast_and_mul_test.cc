/// Weights of 8 bits as Cast and Mul: which become so, that they are the same numbers, and that
/// nobody takes them for floats.
#include "quant/convert/cast_and_mul.h"

#include <algorithm>

#include "lib/ir/eval.h"
#include "lib/ir/roles.h"
#include "lib/ir/verify.h"
#include "passes/pass/pipeline.h"
#include "quant/convert/layers.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

using testing::HasSubstr;

int NodesOf(const Graph& g, std::string_view op) {
  return static_cast<int>(
      std::count_if(g.nodes().begin(), g.nodes().end(), [&](const auto& n) { return n->Is(op); }));
}

Graph Spelled(std::string_view text, bool products = true) {
  Graph g = MustParse(text);
  EXPECT_TRUE(SpellAsCastAndMul(g, products).ok());
  EXPECT_TRUE(Verify(g).ok()) << Verify(g).message();
  return g;
}

constexpr char kLayers[] = R"(graph g(x: f32[1,2,5,5], q: f32[3,1,2], m: f32[3,2]) -> (y, z, h, p) {
  w = const i8[3,2,3,3] ~1  ws = const f32[3] {0.1, 0.2, 0.3}
  wf = DequantizeLinear(w, ws) {axis=0}
  y = Conv(x, wf)
  v = const i8[3,2,1,1] ~2  vs = const f32[] {0.7}
  vf = DequantizeLinear(v, vs)
  z = Conv(x, vf)
  a = const i8[1,16,2] ~3  as = const f32[16] ~4  az = const i8[16] {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}
  af = DequantizeLinear(a, as, az) {axis=1}
  b = const f32[1,16,4] ~5
  _, h = LSTM(q, af, b) {hidden_size=4}
  k = const i8[2,4] ~6  ks = const f32[4] {1, 2, 3, 4}
  kf = DequantizeLinear(k, ks) {axis=-1}
  p = MatMul(m, kf) })";

TEST(CastAndMul, SameBits) {
  const Graph before = MustParse(kLayers);
  const Graph after = Spelled(kLayers);
  EXPECT_EQ(NodesOf(after, "DequantizeLinear"), 0);
  EXPECT_EQ(NodesOf(after, "Cast"), 4);
  EXPECT_EQ(NodesOf(after, "Mul"), 4);
  const Samples samples = NormalSamples(before, 1, 7);
  const auto inputs = samples.get(0);
  ASSERT_TRUE(inputs.ok());
  const auto want = Evaluate(before, *inputs), got = Evaluate(after, *inputs);
  ASSERT_TRUE(want.ok() && got.ok());
  for (size_t i = 0; i < want->size(); ++i)
    EXPECT_TRUE(BitEqual((*got)[i].tensor(), (*want)[i].tensor())) << i;
}

TEST(CastAndMul, ProductsOnlyWhenWanted) {
  EXPECT_EQ(NodesOf(Spelled(kLayers, false), "DequantizeLinear"), 1);
}

TEST(CastAndMul, LayersBehindCodesStay) {
  const std::string_view head = R"(graph g(c: u8[1,2,6,6]) -> (y) {
    s = const f32[] {0.5}  x = DequantizeLinear(c, s)
    w = const i8[3,2,3,3] ~1  ws = const f32[3] {0.1, 0.2, 0.3}
    wf = DequantizeLinear(w, ws) {axis=0}
    )";
  EXPECT_EQ(NodesOf(Spelled(std::string(head) + "y = Conv(x, wf) }"), "DequantizeLinear"), 2);
  EXPECT_EQ(
      NodesOf(Spelled(std::string(head) + "p = MaxPool(x) {kernel_shape=[2,2]} y = Conv(p, wf) }"),
              "DequantizeLinear"),
      2);
  // Sigmoid computes in f32, and so does the layer behind it.
  EXPECT_EQ(
      NodesOf(Spelled(std::string(head) + "p = Sigmoid(x) y = Conv(p, wf) }"), "DequantizeLinear"),
      1);
}

/// A file below opset 13 has no other form for scales per channel, while one scale stays as it is.
TEST(CastAndMul, NoneWithScalesPerChannelStaysBelowOpset13) {
  for (const bool per_channel : {true, false}) {
    Graph g = MustParse(std::string(R"(graph g(c: u8[1,2,6,6]) -> (y) {
      s = const f32[] {0.5}  x = DequantizeLinear(c, s)
      w = const i8[3,2,3,3] ~1  )") +
                        (per_channel ? "ws = const f32[3] {0.1, 0.2, 0.3} wf = "
                                       "DequantizeLinear(w, ws) {axis=0} "
                                     : "ws = const f32[] {0.1} wf = DequantizeLinear(w, ws) ") +
                        "y = Conv(x, wf) }");
    ASSERT_TRUE(SpellAsCastAndMul(g, true, /*has_channel_scales=*/false).ok());
    EXPECT_TRUE(Verify(g).ok());
    EXPECT_EQ(NodesOf(g, "DequantizeLinear"), per_channel ? 1 : 2);
  }
}

TEST(CastAndMul, OtherReadersAndFormsStay) {
  const std::string_view head = "graph g(x: f32[2,4]) -> (y, z) { w = const i8[4,4] ~1 ";
  for (const std::string_view rest :
       {// Weights alone: the one that is spelled anew.
        "s = const f32[] {0.5} f = DequantizeLinear(w, s) y = MatMul(x, f) z = Add(x, x) }",
        "s = const f32[] {0.5} f = DequantizeLinear(w, s) y = MatMul(x, f) z = Neg(f) }",
        "s = const f32[] {0.5} o = const i8[] {1} f = DequantizeLinear(w, s, o) y = MatMul(x, f) "
        "z = Neg(x) }",
        "s = const f32[2,4] {1, 2, 3, 4, 5, 6, 7, 8} f = DequantizeLinear(w, s) {axis=0, "
        "block_size=2} y = MatMul(x, f) "
        "z = Neg(x) }"}) {
    const bool plain = rest.find("z = Add") != std::string_view::npos;
    EXPECT_EQ(NodesOf(Spelled(std::string(head) + std::string(rest)), "DequantizeLinear"),
              plain ? 0 : 1)
        << rest;
  }
}

TEST(CastAndMul, IsNotFoldedAndNotTakenForFloats) {
  Graph g = Spelled(kLayers);
  const Status float_only = CheckIsFloat(g);
  EXPECT_THAT(float_only.message(), HasSubstr("quantized already"));
  ASSERT_TRUE(Optimize(g).ok());
  EXPECT_EQ(NodesOf(g, "Cast"), 4);
  EXPECT_EQ(NodesOf(g, "Mul"), 4);
}

TEST(CastAndMul, OtherCastsAreFolded) {
  Graph g = MustParse(R"(graph g(x: f32[2,4]) -> (y) {
    w = const i8[4] {1, 2, 3, 4}  s = const f32[] {0.5}
    c = Cast(w) {to=1}  f = Mul(c, s)  y = Add(x, f) })");
  EXPECT_TRUE(CheckIsFloat(g).ok());
  ASSERT_TRUE(Optimize(g).ok());
  EXPECT_EQ(NodesOf(g, "Cast"), 0);
}

}  // namespace
}  // namespace infer
