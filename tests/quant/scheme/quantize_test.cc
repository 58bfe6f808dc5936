#include "quant/scheme/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/ir/eval.h"
#include "lib/support/strings.h"
#include "tests/quant/scheme/must_quantize.h"

namespace infer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(QuantizeStatic, GoldenTextOfConvRelu) {
  Graph g = MustParse(R"(
graph g(x: f32[1,1,2,2]) -> (y: f32[1,1,2,2]) {
  w = const f32[2,1,1,1] {1.27, -2.54}
  b = const f32[2] {0.5, 0}
  v = const f32[1,2,1,1] {1, 0.5}
  c = Conv(x, w, b)
  r = Relu(c)
  y = Conv(r, v)
}
)");
  const Samples samples =
      InMemory({{Tensor::Of<float>({1, 1, 2, 2}, {-1, 4.1f, 0, 2})}});  // scale 0.02, zero 50
  MustQuantize(g, samples, Plain());
  EXPECT_EQ(Print(g), R"(graph g(x: f32[1,1,2,2]) -> (y: f32[1,1,2,2]) {
  x_scale = const f32[] {0.02}
  x_zero_point = const u8[] {50}
  x_quantized = QuantizeLinear(x, x_scale, x_zero_point)
  x_dequantized = DequantizeLinear(x_quantized, x_scale, x_zero_point)
  w_quantized = const i8[2,1,1,1] {127, -127}
  w_scale = const f32[2] {0.01, 0.02}
  w_zero_point = const i8[2] {0, 0}
  w_dequantized = DequantizeLinear(w_quantized, w_scale, w_zero_point) {axis=0}
  b_quantized = const i32[2] {2500, 0}
  b_scale = const f32[2] {2e-04, 4e-04}
  b_dequantized = DequantizeLinear(b_quantized, b_scale) {axis=0}
  c = Conv(x_dequantized, w_dequantized, b_dequantized)
  r_scale = const f32[] {0.022380391}
  r_zero_point = const u8[] {0}
  r_quantized = QuantizeLinear(c, r_scale, r_zero_point)
  r = DequantizeLinear(r_quantized, r_scale, r_zero_point)
  v_quantized = const i8[1,2,1,1] {127, 64}
  v_scale = const f32[1] {0.007874016}
  v_zero_point = const i8[1] {0}
  v_dequantized = DequantizeLinear(v_quantized, v_scale, v_zero_point) {axis=0}
  y = Conv(r, v_dequantized)
}
)");
}

/// Property: what INT8 may err is bounded by its steps: >= 25 dB on well-behaved layers.
TEST(QuantizeStatic, ErrorIsBounded) {
  const char* const graphs[] = {
      R"(graph conv(x: f32[1,3,9,9]) -> (y: f32[1,5,9,9]) {
  w1 = const f32[8,3,3,3] ~1
  b1 = const f32[8] ~2
  w2 = const f32[5,8,3,3] ~3
  a = Conv(x, w1, b1) {pads=[1, 1, 1, 1]}
  r = Relu(a)
  y = Conv(r, w2) {pads=[1, 1, 1, 1]}
})",
      R"(graph depthwise(x: f32[1,6,9,9]) -> (y: f32[1,4,9,9]) {
  w1 = const f32[6,1,3,3] ~1
  w2 = const f32[4,6,1,1] ~3
  lo = const f32[] {0}
  hi = const f32[] {2}
  a = Conv(x, w1) {pads=[1, 1, 1, 1], group=6}
  r = Clip(a, lo, hi)
  y = Conv(r, w2)
})",
      R"(graph transposed(x: f32[1,4,5,5]) -> (y: f32[1,6,10,10]) {
  w = const f32[4,3,2,2] ~1
  b = const f32[6] ~2
  y = ConvTranspose(x, w, b) {strides=[2, 2], group=2}
})",
      R"(graph gemm(x: f32[3,16]) -> (y: f32[3,4]) {
  w1 = const f32[16,12] ~1
  c1 = const f32[1,12] ~2
  w2 = const f32[4,12] ~3
  c2 = const f32[] {0.7}
  a = Gemm(x, w1, c1) {alpha=0.5, beta=2.0}
  r = Relu(a)
  y = Gemm(r, w2, c2) {transB=1}
})",
      R"(graph attention(x: f32[1,6,8]) -> (y: f32[1,6,8]) {
  wq = const f32[8,8] ~1
  bq = const f32[8] ~2
  wk = const f32[8,8] ~3
  q0 = MatMul(x, wq)
  q = Add(q0, bq)
  k = MatMul(x, wk)
  kt = Transpose(k) {perm=[0, 2, 1]}
  s = MatMul(q, kt)
  v = MatMul(s, x)
  y = Add(x, v)
})",
      R"(graph fire(x: f32[1,4,6,6]) -> (y: f32[1,2,1,1]) {
  w1 = const f32[3,4,1,1] ~1
  w2 = const f32[3,4,1,1] ~2
  w3 = const f32[2,6,1,1] ~4
  a0 = Conv(x, w1)
  a = Relu(a0)
  b = Conv(x, w2)
  c = Concat(a, b) {axis=1}
  m = MaxPool(c) {kernel_shape=[3, 3], pads=[1, 1, 1, 1]}
  p = GlobalAveragePool(m)
  y = Conv(p, w3)
})"};
  for (const char* text : graphs) {
    const Graph golden = MustParse(text);
    for (const DType activations : {DType::kU8, DType::kI8})
      for (const bool per_channel : {true, false}) {
        QuantizeOptions options = Plain();
        options.scheme.activations.dtype = activations;
        options.scheme.per_channel = per_channel;
        Graph g = golden.Clone();
        MustQuantize(g, NormalSamples(golden, 32, 1), options);
        EXPECT_GT(SqnrDb(golden, g, NormalSamples(golden, 8, 2)), 25) << text;
      }
  }
}

TEST(QuantizeStatic, ReluGoesWhereSaturationReplacesIt) {
  constexpr std::string_view text = R"(graph g(x: f32[1,2,4,4]) -> (y: f32[1,2,4,4]) {
  w = const f32[2,2,1,1] ~1
  a = Conv(x, w)
  r = Relu(a)
  y = Conv(r, w)
})";
  Graph asymmetric = MustParse(text);
  MustQuantize(asymmetric, NormalSamples(asymmetric, 8, 1), Plain());
  EXPECT_EQ(Count(asymmetric, "Relu"), 0);
  EXPECT_EQ(asymmetric.FindValue("r")->producer()->op(), "DequantizeLinear");

  QuantizeOptions options = Plain();
  options.scheme.activations = {DType::kI8, true, false};
  Graph symmetric = MustParse(text);
  MustQuantize(symmetric, NormalSamples(symmetric, 8, 1), options);
  EXPECT_EQ(Count(symmetric, "Relu"), 1);  // zero point 0: codes below it exist
}

TEST(QuantizeStatic, ClipGoesWhereItsBoundsAreTheEndsOfTheRange) {
  const Graph golden = MustParse(R"(graph g(x: f32[1,1,1,4]) -> (y: f32[1,2,1,4]) {
  w = const f32[1,1,1,1] {1}
  v = const f32[2,1,1,1] {1, 2}
  lo = const f32[] {-1}
  hi = const f32[] {6}
  a = Conv(x, w)
  c = Clip(a, lo, hi)
  y = Conv(c, v)
})");
  const Samples all = InMemory({{Tensor::Of<float>({1, 1, 1, 4}, {-3, 9, 0, 1})}});
  const Samples inner = InMemory({{Tensor::Of<float>({1, 1, 1, 4}, {2, 3, 4, 5})}});
  Graph reached = golden.Clone(), unreached = golden.Clone(), symmetric = golden.Clone();
  MustQuantize(reached, all, Plain());
  EXPECT_EQ(Count(reached, "Clip"), 0);
  MustQuantize(unreached, inner, Plain());
  EXPECT_EQ(Count(unreached, "Clip"), 0);
  QuantizeOptions options = Plain();
  options.scheme.activations = {DType::kI8, true, false};  // -6...6: codes below -1 exist
  MustQuantize(symmetric, all, options);
  EXPECT_EQ(Count(symmetric, "Clip"), 1);
}

TEST(QuantizeStatic, SharedWeightsAreStoredOnce) {
  Graph g = MustParse(R"(graph g(x: f32[1,2,4,4]) -> (y: f32[1,2,4,4]) {
  w = const f32[2,2,1,1] ~1
  a = Conv(x, w)
  y = Conv(a, w)
})");
  const QuantizeReport report = MustQuantize(g, NormalSamples(g, 8, 1), Plain());
  int codes = 0;
  for (const auto& v : g.values())
    if (v->is_constant() && v->constant()->dtype() == DType::kI8 && v->constant()->rank() == 4)
      ++codes;
  EXPECT_EQ(codes, 1);
  EXPECT_EQ(report.integer_layers, 2);
}

TEST(QuantizeStatic, WeightsShrink) {
  Graph g = MustParse(R"(graph g(x: f32[2,64]) -> (y: f32[2,64]) {
  w = const f32[64,64] ~1
  b = const f32[64] ~2
  y = Gemm(x, w, b)
})");
  const QuantizeReport report = MustQuantize(g, NormalSamples(g, 8, 1), Plain());
  EXPECT_EQ(report.weight_bytes_before, 64 * 64 * 4 + 64 * 4);
  EXPECT_EQ(report.layers[0].weight_bytes_before, report.weight_bytes_before);
  // codes, scales, zero points, bias codes and scales; and the activation's two scalars
  EXPECT_EQ(report.layers[0].weight_bytes_after, 64 * 64 + 64 * 5 + 64 * 8);
  EXPECT_EQ(report.weight_bytes_after, report.layers[0].weight_bytes_after + 5);
}

TEST(QuantizeStatic, LargeBiasWidensTheScaleInsteadOfOverflowing) {
  const Graph golden = MustParse(R"(graph g(x: f32[1,2]) -> (y: f32[1,2]) {
  w = const f32[2,2] {1e-9, 1, 1e-9, 1}
  b = const f32[2] {1000, 1}
  y = Gemm(x, w, b)
})");
  Graph g = golden.Clone();
  const QuantizeReport report = MustQuantize(g, NormalSamples(golden, 32, 1), Plain());
  EXPECT_EQ(report.layers[0].widened_channels, 1);
  EXPECT_FALSE(report.warnings.empty());
  EXPECT_GT(SqnrDb(golden, g, NormalSamples(golden, 8, 2)), 40);
}

/// ONNX Runtime makes a Gemm of a MatMul and an Add where extents are known, and computes it in f32
/// unless its bias has codes.
TEST(QuantizeStatic, BiasesOfAddsHaveCodesWhereTheyBecomeGemms) {
  const auto bias_is_code = [](std::string_view x, std::string_view bias) {
    const auto model = [&](std::string_view extents) {
      return MustParse(Cat("graph g(x: f32[", extents, R"(]) -> (y) {
  w = const f32[8,6] ~1
  b = const f32[)",
                           bias, R"(
  m = MatMul(x, w)
  a = Add(b, m)
  y = Sigmoid(a)
})"));
    };
    const Graph golden = model(x);
    Graph g = golden.Clone();
    const Samples samples = NormalSamples(x == "B,3,8" ? model("2,3,8") : model(x), 16, 1);
    const QuantizeReport report = MustQuantize(g, samples, Plain());
    EXPECT_EQ(report.layers[0].precision, "int8");
    EXPECT_EQ(report.layers[0].widened_channels, 0);
    EXPECT_GT(SqnrDb(golden, g, samples), 30);
    const Node* add = nullptr;
    for (const auto& n : g.nodes())
      if (n->Is("Add")) add = n.get();
    EXPECT_NE(add, nullptr);
    return add && add->input(0)->producer() && add->input(0)->producer()->Is("DequantizeLinear");
  };
  EXPECT_TRUE(bias_is_code("2,3,8", "6] ~2"));
  EXPECT_TRUE(bias_is_code("4,8", "6] ~2"));
  EXPECT_TRUE(bias_is_code("4,8", "1,6] ~2"));
  EXPECT_FALSE(bias_is_code("B,3,8", "6] ~2")) << "ONNX Runtime leaves a MatMul of open extents";
  EXPECT_FALSE(bias_is_code("2,3,8", "1,6] ~2"));
  EXPECT_FALSE(bias_is_code("2,3,8", "1] ~2"));
  EXPECT_FALSE(bias_is_code("2,3,8", "6] {1e9, 0, 0, 0, 0, 0}")) << "scales would become wider";
}

TEST(QuantizeStatic, OfLayersThatItDoesNotCoverOtherModesAreNamed) {
  Graph g = MustParse(R"(graph g(x: f32[5,1,3]) -> (y) { w = const f32[1,16,3] ~1
    r = const f32[1,16,4] ~2  y = LSTM(x, w, r) {hidden_size=4} })");
  const auto backend = MakeReferenceBackend();
  EXPECT_THAT(QuantizeStatic(g, NormalSamples(g, 2, 1), *backend).status().message(),
              HasSubstr("--mode weight-only"));
}

/// INT8 does not cover the LSTM, but its weights are stored in 8 bits.
TEST(QuantizeStatic, LayersThatOnlyStoreIntegersCount) {
  Graph g = MustParse(R"(graph g(x: f32[5,2,6]) -> (h) {
  v = const f32[6,32] ~1
  w = const f32[1,64,32] ~2
  r = const f32[1,64,16] ~3
  a = MatMul(x, v)
  _, h = LSTM(a, w, r) {hidden_size=16}
})");
  QuantizeOptions options = Plain();
  options.scheme.store = {"h"};
  const QuantizeReport report = MustQuantize(g, NormalSamples(g, 8, 1), options);
  ASSERT_EQ(report.layers.size(), 2u);
  EXPECT_EQ(report.layers[1].precision, "int8-weights");
  EXPECT_EQ(report.integer_layers, 2);
  ExpectCounted(report);
}

/// Arithmetic on extents is no layer and has no row of the report.
TEST(QuantizeStatic, LayersThatOnlyStoreIntegersStandBehindArithmetic) {
  Graph g = MustParse(R"(graph g(x: f32[5,2,6]) -> (h) {
  v = const f32[6,32] ~1
  w = const f32[1,64,32] ~2
  r = const f32[1,64,16] ~3
  s = Shape(x)
  o = const i64[1] {1}
  t = Mul(s, o)
  z = Reshape(x, t)
  a = MatMul(z, v)
  _, h = LSTM(a, w, r) {hidden_size=16}
})");
  QuantizeOptions options = Plain();
  options.prepare = false;
  options.scheme.store = {"h"};
  const QuantizeReport report = MustQuantize(g, NormalSamples(g, 8, 1), options);
  for (const QuantizedLayer& l : report.layers)
    EXPECT_EQ(l.precision == "int8-weights", l.op == "LSTM") << l.name;
  ExpectCounted(report);
}

/// Of everything that a file repeats: names of nodes and of what they read and give.
size_t NameBytes(const Graph& g) {
  size_t bytes = 0;
  for (const auto& n : g.nodes()) {
    bytes += n->name().size();
    for (const auto& values : {n->inputs(), n->outputs()})
      for (const Value* v : values) bytes += v ? v->name().size() : 0;
  }
  for (const auto& v : g.values()) bytes += v->is_constant() ? v->name().size() : 0;
  return bytes;
}

/// What a pair costs a file does not grow with names that exporters make of whole module paths; and
/// equal scales and zero points stand in it once.
TEST(QuantizeStatic, PairsCostFewBytes) {
  const std::string path(90, 'p');
  std::string text = "graph g(x: f32[1,4,5,5]) -> (y) {\n", from = "x";
  for (int i = 0; i < 6; ++i) {
    const std::string to = i < 5 ? Cat(path, i) : "y";
    text += Cat("  ", path, "w", i, " = const f32[4,4,1,1] ~", i + 1, "\n  ", to, " = Conv(", from,
                ", ", path, "w", i, ")\n");
    from = to;
  }
  Graph g = MustParse(text + "}\n");
  const size_t before = NameBytes(g);
  MustQuantize(g, NormalSamples(g, 8, 1), Plain());
  const auto pairs = static_cast<size_t>(Count(g, "DequantizeLinear"));
  EXPECT_EQ(pairs, 12u);
  EXPECT_LT(NameBytes(g) - before, 180 * pairs);
  std::vector<const Tensor*> parameters;
  for (const auto& n : g.nodes())
    if (n->Is("DequantizeLinear"))
      for (const size_t i : {1, 2})
        if (const Tensor* t = n->input(i)->constant();
            std::find(parameters.begin(), parameters.end(), t) == parameters.end())
          parameters.push_back(t);
  for (size_t i = 0; i < parameters.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(BitEqual(*parameters[i], *parameters[j]));
}

TEST(QuantizeStatic, RefusalsLeaveTheGraphAlone) {
  Graph g = MustParse("graph g(x: f32[2]) -> (y) { y = Relu(x) }");
  const uint64_t before = Fingerprint(g);
  const auto backend = MakeReferenceBackend();
  EXPECT_EQ(QuantizeStatic(g, NormalSamples(g, 1, 1), *backend, Plain()).status().code(),
            Code::kUnsupported);
  EXPECT_EQ(Fingerprint(g), before);
  Graph m = MustParse("graph g(x: f32[1,2]) -> (y) { w = const f32[2,3] ~1\n y = MatMul(x, w) }");
  EXPECT_EQ(QuantizeStatic(m, InMemory({}), *backend, Plain()).status().code(),
            Code::kInvalidArgument);
  MustQuantize(m, NormalSamples(m, 4, 1), Plain());
  EXPECT_THAT(QuantizeStatic(m, NormalSamples(m, 4, 1), *backend, Plain()).status().message(),
              HasSubstr("quantized already"));
  Graph dynamic = MustParse(R"(graph g(x: f32[1,2]) -> (y) {
    w = const f32[2,3] ~1  v = const i8[3,3] {1, 2, 3, 4, 5, 6, 7, 8, 9}
    m = MatMul(x, w)
    q, s, z = DynamicQuantizeLinear(m)
    i = MatMulInteger(q, v, z)
    f = Cast(i) {to=1}
    y = Mul(f, s) })");
  EXPECT_THAT(
      QuantizeStatic(dynamic, NormalSamples(dynamic, 4, 1), *backend, Plain()).status().message(),
      HasSubstr("quantized already"));
}

TEST(QuantizeStatic, StopsAndReportsProgress) {
  Graph g = MustParse("graph g(x: f32[1,2]) -> (y) { w = const f32[2,3] ~1\n y = MatMul(x, w) }");
  std::stop_source stop;
  std::vector<int64_t> seen;
  QuantizeOptions options = Plain();
  options.stop = stop.get_token();
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 5);
    seen.push_back(done);
    if (done == 3) stop.request_stop();
  };
  const auto r = QuantizeStatic(g, NormalSamples(g, 5, 1), *MakeReferenceBackend(), options);
  EXPECT_EQ(r.status().code(), Code::kCancelled);
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
}

TEST(QuantizeStatic, OneScaleForUnequalDepthwiseChannelsIsTold) {
  const auto told = [](bool per_channel, std::string_view weights) {
    Graph g =
        MustParse(Cat("graph g(x: f32[1,3,2,2]) -> (y: f32[1,3,2,2]) {\n  w = const "
                      "f32[3,1,1,1] {",
                      weights, "}\n  y = Conv(x, w) {group = 3}\n}\n"));
    QuantizeOptions o = Plain();
    o.scheme.per_channel = per_channel;
    const QuantizeReport r = MustQuantize(g, NormalSamples(g, 40, 1), o);
    return std::any_of(r.warnings.begin(), r.warnings.end(), [](const std::string& w) {
      return w.find("depthwise") != std::string::npos;
    });
  };
  EXPECT_TRUE(told(false, "0.01, 0.02, 5"));
  EXPECT_FALSE(told(false, "1, 2, 5"));
  EXPECT_FALSE(told(true, "0.01, 0.02, 5"));
}

}  // namespace
}  // namespace infer
