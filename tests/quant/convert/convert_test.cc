/// f16, bf16, dynamic INT8 and QOperator over small graphs: what is written, and errors bounded by
/// what the type allows.
#include <algorithm>
#include <cmath>

#include "lib/ir/verify.h"
#include "quant/accuracy/compare.h"
#include "quant/convert/dynamic.h"
#include "quant/convert/float_rules.h"
#include "quant/convert/narrow.h"
#include "quant/convert/qoperator.h"
#include "quant/scheme/quantize.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

using testing::HasSubstr;

int Count(const Graph& g, std::string_view op, std::string_view domain = "") {
  return static_cast<int>(std::count_if(g.nodes().begin(), g.nodes().end(),
                                        [&](const auto& n) { return n->Is(op, domain); }));
}

double SqnrDb(const Graph& golden, const Graph& candidate, const Samples& samples) {
  const auto backend = MakeReferenceBackend();
  const auto report = Compare(golden, *backend, candidate, *backend, samples);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? report->outputs[0].metrics.sqnr_db : -1;
}

QuantizeReport MustNarrow(Graph& g, NarrowOptions options = {}, const Samples& samples = {}) {
  options.prepare = false;
  auto report = NarrowFloats(g, samples, *MakeReferenceBackend(), options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(Verify(g).ok()) << Verify(g).message();
  return report.ok() ? *std::move(report) : QuantizeReport();
}

std::string ReasonOf(const QuantizeReport& r, std::string_view op) {
  for (const QuantizedLayer& l : r.layers)
    if (l.op == op) return l.reason;
  return "no such layer";
}

constexpr char kTwoLayers[] = R"(graph g(x: f32[N,8]) -> (y: f32[N,4]) {
  w = const f32[8,16] ~1  b = const f32[16] ~2  v = const f32[16,4] ~3
  h = Gemm(x, w, b)  r = Relu(h)  y = MatMul(r, v) })";

constexpr char kStaticTwoLayers[] = R"(graph g(x: f32[3,8]) -> (y: f32[3,4]) {
  w = const f32[8,16] ~1  b = const f32[16] ~2  v = const f32[16,4] ~3
  h = Gemm(x, w, b)  r = Relu(h)  y = MatMul(r, v) })";

TEST(Narrow, GoldenTextHasOneCastAtEachEnd) {
  Graph g = MustParse(R"(graph g(x: f32[N,2]) -> (y: f32[N,2]) {
    w = const f32[2,2] {1, 2, 3, 4}  h = MatMul(x, w)  y = Relu(h) })");
  MustNarrow(g);
  EXPECT_EQ(Print(g), R"(graph g(x: f32[N,2]) -> (y: f32[N,2]) {
  x_f16 = Cast(x) {to=10, name="x_f16"}
  w_f16 = const f16[2,2] {1, 2, 3, 4}
  h = MatMul(x_f16, w_f16)
  y_f32 = Relu(h)
  y = Cast(y_f32) {to=1, name="y_f32"}
}
)");
}

TEST(Narrow, InterfaceBecomesNarrowWhenAsked) {
  Graph g = MustParse(kTwoLayers);
  NarrowOptions options;
  options.keep_io = false;
  MustNarrow(g, options);
  EXPECT_EQ(Count(g, "Cast"), 0);
  EXPECT_EQ(g.inputs()[0]->dtype(), DType::kF16);
  EXPECT_EQ(g.outputs()[0]->dtype(), DType::kF16);
  EXPECT_EQ(g.outputs()[0]->name(), "y");
}

/// Rounding to 11 bits errs at most 2^-12 of a number: more than 66 dB apart each time; to 8
/// bits 48.
TEST(Narrow, ErrorIsThatOfTheType) {
  const Graph golden = MustParse(kStaticTwoLayers);
  const Samples samples = NormalSamples(golden, 8, 1);
  for (const auto& [to, db] : {std::pair{DType::kF16, 60.0}, {DType::kBF16, 42.0}}) {
    Graph g = golden.Clone();
    NarrowOptions options;
    options.to = to;
    MustNarrow(g, options);
    const double sqnr = SqnrDb(golden, g, samples);
    EXPECT_GT(sqnr, db) << Name(to);
    EXPECT_LT(sqnr, 200) << "nothing was rounded to " << Name(to);
  }
}

TEST(Narrow, ConstantsThatDoNotFitKeepTheirNode) {
  Graph g = MustParse(R"(graph g(x: f32[2,2]) -> (a: f32[2,2], b: f32[2,2], c: f32[2,2]) {
    w = const f32[2,2] {1, 2, 3, 100000}  v = const f32[2,2] {1e-7, 2e-7, 0, 3e-7}
    u = const f32[2,2] {1, 1e-7, 0, 2}
    a = MatMul(x, w)  b = MatMul(x, v)  c = Gemm(x, u) })");
  NarrowOptions options;
  const QuantizeReport r = MustNarrow(g, options);
  EXPECT_THAT(r.layers[0].reason, HasSubstr("constants 'w' overflow f16 (up to 1e+05)"));
  EXPECT_THAT(r.layers[1].reason, HasSubstr("constants 'v' become subnormal in f16 (3 of 4"));
  EXPECT_EQ(r.layers[2].reason, "");  // one small number among large ones costs nothing
  EXPECT_EQ(r.layers[2].precision, "f16");
  Graph h = MustParse(R"(graph g(x: f32[2,2]) -> (y: f32[2,2]) {
    w = const f32[2,2] {1, 2, 3, 100000}  y = MatMul(x, w) })");
  options.to = DType::kBF16;
  EXPECT_EQ(MustNarrow(h, options).layers[0].precision, "bf16");
}

TEST(Narrow, DataTellValuesThatOverflow) {
  const Graph golden = MustParse(R"(graph g(x: f32[2]) -> (y: f32[2]) {
    k = const f32[1] {30000}  w = const f32[2,2] {1, 2, 3, 4}
    a = Mul(x, k)  b = MatMul(a, w)  y = Tanh(b) })");
  NarrowOptions options;
  Graph small = golden.Clone(), large = golden.Clone();
  const auto of = [](float v) { return InMemory({{Tensor::Of<float>({2}, {v, 0})}}); };
  EXPECT_EQ(ReasonOf(MustNarrow(small, options, of(0.5f)), "MatMul"), "");
  options.prepare = false;
  const auto refused = NarrowFloats(large, of(8), *MakeReferenceBackend(), options);
  ASSERT_FALSE(refused.ok());  // Mul, MatMul and Tanh all touch values beyond 65504
  EXPECT_THAT(refused.status().message(), HasSubstr("values 'a' overflow f16 (up to 240000)"));
}

/// A mask of -1e9 would become -inf, and a row of them NaN after Softmax.
TEST(Narrow, WithoutDataWhatFollowsAnOverflowStaysF32) {
  Graph g = MustParse(R"(graph g(x: f32[2,4], m: f32[2,4]) -> (y: f32[2,4]) {
    big = const f32[] {-1e9}  w = const f32[4,4] ~1  v = const f32[4,4] ~2
    s = MatMul(x, w)  n = Mul(m, big)  t = Add(s, n)  p = Softmax(t)  y = MatMul(p, v) })");
  const QuantizeReport r = MustNarrow(g);
  EXPECT_THAT(ReasonOf(r, "Mul"), HasSubstr("constants 'big' overflow"));
  EXPECT_THAT(ReasonOf(r, "Add"), HasSubstr("reads 'n'"));
  EXPECT_THAT(ReasonOf(r, "Softmax"), HasSubstr("reads 't'"));
  EXPECT_EQ(ReasonOf(r, "MatMul"), "");
  EXPECT_THAT(r.warnings, testing::Contains(HasSubstr("no data")));
}

TEST(Narrow, LightOperatorsBetweenF32OnesAreNotCastForNothing) {
  Graph g = MustParse(R"(graph g(x: f32[2,4]) -> (y: f32[2,4], z: f32[2,4]) {
    w = const f32[4,4] ~1  one = const f32[] {1}
    a = Sin(x)  b = Add(a, one)  c = Relu(b)  y = Cos(c)  z = MatMul(x, w) })");
  const QuantizeReport r = MustNarrow(g);
  EXPECT_THAT(ReasonOf(r, "Sin"), HasSubstr("angle"));
  EXPECT_THAT(ReasonOf(r, "Add"), HasSubstr("casts"));
  EXPECT_THAT(ReasonOf(r, "Relu"), HasSubstr("casts"));
  EXPECT_EQ(Count(g, "Cast"), 2);  // of the MatMul alone
}

TEST(Narrow, HalvesThatOnnxRuntimeLacksStayF32) {
  const auto narrowed = [](DType to) {
    Graph g = MustParse(R"(graph g(x: f32[3,2,8], d: f32[4,8]) -> (y, z) {
      w = const f32[8,8] ~1  v = const f32[8,8] ~2  t = Transpose(x) {perm=[1,0,2]}  y = MatMul(t, w)
      s = const i64[2] {6,8}  j = const i64[6,1] {0,1,2,3,0,1}  n = MatMul(x, v)  u = Reshape(n, s)
      z = ScatterND(d, j, u) {reduction="add"} })");
    NarrowOptions options;
    options.to = to;
    return MustNarrow(g, options);
  };
  const QuantizeReport half = narrowed(DType::kF16), other = narrowed(DType::kBF16);
  EXPECT_THAT(ReasonOf(half, "Transpose"), HasSubstr("ONNX Runtime"));
  EXPECT_THAT(ReasonOf(half, "ScatterND"), HasSubstr("ONNX Runtime"));
  EXPECT_EQ(ReasonOf(half, "MatMul"), "");
  EXPECT_THAT(ReasonOf(other, "Transpose"), Not(HasSubstr("ONNX Runtime")));
}

TEST(Narrow, OneCastServesAllReaders) {
  Graph g = MustParse(R"(graph g(x: f32[2,4]) -> (y: f32[2,4], z: f32[2,4], s: f32[2,4]) {
    w = const f32[4,4] ~1  v = const f32[4,4] ~2  h = MatMul(x, w)
    s = Sin(h)  y = MatMul(h, v)  z = Cos(h) })");
  MustNarrow(g);
  EXPECT_EQ(Count(g, "Cast"), 3);  // x, h for Sin and Cos, y
}

TEST(Narrow, PatternsChoose) {
  Graph g = MustParse(kTwoLayers);
  NarrowOptions options;
  options.exclude = {{NodePattern::Kind::kOp, "Gemm"}};
  EXPECT_THAT(ReasonOf(MustNarrow(g, options), "Gemm"), HasSubstr("excluded"));
  Graph h = MustParse(kTwoLayers);
  options.exclude = {{NodePattern::Kind::kOp, "Conv"}};
  EXPECT_FALSE(NarrowFloats(h, {}, *MakeReferenceBackend(), options).ok());
}

TEST(RoundingCheck, BoundIsThatOfNormalNumbers) {
  const auto why = [](std::initializer_list<float> v, DType to) {
    RoundingCheck c(to);
    c.See(std::span<const float>(v.begin(), v.size()));
    return c.Why(1);
  };
  EXPECT_EQ(why({1, -2, 65504, 0}, DType::kF16), "");
  EXPECT_THAT(why({65520}, DType::kF16), HasSubstr("overflow"));
  EXPECT_THAT(why({1e-6f, 3e-6f}, DType::kF16), HasSubstr("subnormal"));
  EXPECT_THAT(why({1e-9f}, DType::kF16), HasSubstr("subnormal"));
  EXPECT_EQ(why({1e-9f, 1e9f}, DType::kBF16), "");
  EXPECT_EQ(why({INFINITY, -INFINITY, NAN, 1}, DType::kF16), "");
}

QuantizeReport MustQuantizeDynamic(Graph& g, DynamicOptions options = {}) {
  options.prepare = false;
  auto report = QuantizeDynamic(g, options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(Verify(g).ok()) << Verify(g).message();
  return report.ok() ? *std::move(report) : QuantizeReport();
}

/// 8-bit steps of x and of each column of w: >= 30 dB on normal numbers.
TEST(Dynamic, ErrorIsBounded) {
  const char* const graphs[] = {
      kStaticTwoLayers,
      R"(graph scaled(x: f32[3,8]) -> (y: f32[3,5]) {
        w = const f32[5,8] ~1  b = const f32[5] ~2
        y = Gemm(x, w, b) {alpha=-0.5, beta=2.0, transB=1} })",
      R"(graph conv(x: f32[2,4,9,9]) -> (y: f32[2,6,5,5]) {
        w = const f32[6,2,3,3] ~1  b = const f32[6] ~2
        y = Conv(x, w, b) {group=2, pads=[1,1,1,1], strides=[2,2]} })",
      R"(graph conv1(x: f32[2,4,9]) -> (y: f32[2,6,9]) {
        w = const f32[6,4,3] ~1  y = Conv(x, w) {auto_pad="SAME_UPPER"} })",
      R"(graph lstm(x: f32[5,2,6]) -> (y: f32[5,2,2,4], h: f32[2,2,4]) {
        w = const f32[2,16,6] ~1  r = const f32[2,16,4] ~2  b = const f32[2,32] ~3
        y, h = LSTM(x, w, r, b) {hidden_size=4, direction="bidirectional"} })",
      R"(graph gru(x: f32[5,2,6]) -> (y: f32[5,1,2,4]) {
        w = const f32[1,12,6] ~1  r = const f32[1,12,4] ~2
        y = GRU(x, w, r) {hidden_size=4} })",
  };
  for (const char* text : graphs) {
    const Graph golden = MustParse(text);
    for (const bool per_channel : {true, false}) {
      Graph g = golden.Clone();
      DynamicOptions options;
      options.per_channel = per_channel;
      MustQuantizeDynamic(g, options);
      const double db = SqnrDb(golden, g, NormalSamples(golden, 4, 7));
      EXPECT_GT(db, per_channel ? 30 : 25) << text;
      EXPECT_LT(db, 100) << "nothing was quantized in " << text;
    }
  }
}

/// The largest code of the constant weights of `op`, by magnitude.
int64_t LargestCode(const Graph& g, std::string_view op) {
  int64_t most = 0;
  for (const auto& n : g.nodes()) {
    if (n->op() != op) continue;
    for (const size_t i : {size_t{1}, size_t{2}}) {
      if (i >= n->inputs().size() || !n->input(i) || !n->input(i)->is_constant()) continue;
      const Tensor& w = *n->input(i)->constant();
      if (w.dtype() != DType::kI8) continue;
      for (int64_t k = 0; k < w.num_elements(); ++k) most = std::max(most, std::abs(w.IntAt(k)));
    }
  }
  return most;
}

/// What ONNX Runtime adds in pairs of 16 bits: not convolutions, nor what is multiplied in f32.
TEST(Dynamic, SevenBitsWherePairsSaturate) {
  const Graph golden = MustParse(R"(graph g(x: f32[2,4,9,9], s: f32[5,2,6], m: f32[3,8])
      -> (y: f32[2,6,9,9], h: f32[5,1,2,4], k: f32[5,1,2,4], z: f32[3,5]) {
    c = const f32[6,4,3,3] ~1  w = const f32[1,16,6] ~2  r = const f32[1,16,4] ~3
    u = const f32[1,12,6] ~4  v = const f32[1,12,4] ~5  p = const f32[8,5] ~6
    y = Conv(x, c) {pads=[1,1,1,1]}  h = LSTM(s, w, r) {hidden_size=4}
    k = GRU(s, u, v) {hidden_size=4}  z = MatMul(m, p) })");
  const auto codes = [&](bool range, bool convolutions) {
    Graph g = golden.Clone();
    DynamicOptions options;
    options.reduce_range = range;
    options.reduce_convolutions = convolutions;
    EXPECT_EQ(MustQuantizeDynamic(g, options).has_wide_pairs, !range);
    std::vector<int64_t> most;
    for (const char* op : {"MatMulInteger", "DynamicQuantizeLSTM", "ConvInteger"})
      most.push_back(LargestCode(g, op));
    return most;
  };
  EXPECT_EQ(codes(false, false), (std::vector<int64_t>{127, 127, 127}));
  EXPECT_EQ(codes(true, false), (std::vector<int64_t>{63, 63, 127}));
  EXPECT_EQ(codes(true, true), (std::vector<int64_t>{63, 63, 63}));
  Graph convolution = MustParse(R"(graph g(x: f32[2,4,9,9]) -> (y: f32[2,6,7,7]) {
    c = const f32[6,4,3,3] ~1  y = Conv(x, c) })");
  EXPECT_FALSE(MustQuantizeDynamic(convolution).has_wide_pairs);
}

TEST(Dynamic, OneQuantizationServesAllReaders) {
  Graph g = MustParse(R"(graph g(x: f32[N,8]) -> (a: f32[N,4], b: f32[N,4], c: f32[N,4]) {
    w = const f32[8,4] ~1  v = const f32[8,4] ~2  u = const f32[8,4] ~3
    a = MatMul(x, w)  b = MatMul(x, v)  c = Gemm(x, u) })");
  EXPECT_EQ(MustQuantizeDynamic(g).integer_layers, 3);
  EXPECT_EQ(Count(g, "DynamicQuantizeLinear"), 1);
  EXPECT_EQ(Count(g, "MatMulInteger"), 3);
  EXPECT_EQ(g.outputs()[1]->name(), "b");
}

TEST(Dynamic, ReasonsAreTold) {
  Graph g = MustParse(R"(graph g(x: f32[5,2,6], q: f32[2,3]) -> (y: f32[5,1,2,4], z: f32[2,2]) {
    w = const f32[1,12,6] ~1  r = const f32[1,12,4] ~2  m = const f32[3,2] {1, 2, nan, 4, 5, 6}
    y = GRU(x, w, r) {hidden_size=4}  z = MatMul(q, m) })");
  const QuantizeReport report = MustQuantizeDynamic(g);
  EXPECT_EQ(report.layers[0].precision, "int8-weights");
  EXPECT_THAT(report.layers[0].reason, HasSubstr("no runtime has a dynamic form"));
  EXPECT_THAT(report.layers[1].reason, HasSubstr("NaN"));
  EXPECT_EQ(report.integer_layers, 1);
  ExpectCounted(report);
  Graph none = MustParse("graph g(x: f32[2]) -> (y: f32[2]) { y = Relu(x) }");
  EXPECT_EQ(QuantizeDynamic(none).status().code(), Code::kUnsupported);
  Graph twice = MustParse(kTwoLayers);
  MustQuantizeDynamic(twice);
  EXPECT_EQ(QuantizeDynamic(twice).status().code(), Code::kInvalidArgument);
}

/// QDQ and QOperator hold the same integers; only float rounding on the way differs.
TEST(QOperator, SaysWhatQdqSays) {
  const char* const graphs[] = {
      R"(graph conv(x: f32[1,3,9,9]) -> (y: f32[1,5]) {
        w1 = const f32[8,3,3,3] ~1  b1 = const f32[8] ~2  w2 = const f32[8,8,3,3] ~3
        w3 = const f32[5,8] ~4  b3 = const f32[5] ~5
        a = Conv(x, w1, b1) {pads=[1,1,1,1]}  r = Relu(a)  p = MaxPool(r) {kernel_shape=[2,2]}
        c = Conv(p, w2) {pads=[1,1,1,1]}  s = Add(p, c)  g = GlobalAveragePool(s)
        f = Flatten(g)  y = Gemm(f, w3, b3) {transB=1} })",
      R"(graph attention(x: f32[1,6,8]) -> (y: f32[1,6,8]) {
        wq = const f32[8,8] ~1  bq = const f32[8] ~2  wk = const f32[8,8] ~3
        wv = const f32[8,8] ~4  k = const f32[] {0.3}
        q0 = MatMul(x, wq)  q = Add(q0, bq)  kk = MatMul(x, wk)  v = MatMul(x, wv)
        t = Transpose(kk) {perm=[0,2,1]}  a = MatMul(q, t)  m = Mul(a, k)  p = Softmax(m)
        y = MatMul(p, v) })",
      R"(graph pads(x: f32[1,2,6,6]) -> (y: f32[1,3,7,7]) {
        w = const f32[4,2,1,1] ~1  v = const f32[3,8,2,2] ~2  n = const i64[8] {0,0,1,1,0,0,1,1}
        a = Conv(x, w)  b = Conv(x, w) {}  c = Concat(a, b) {axis=1}  p = Pad(c, n)
        y0 = Conv(p, v)  y = Relu(y0) })",
  };
  for (const char* text : graphs) {
    const Graph golden = MustParse(text);
    const Samples samples = NormalSamples(golden, 8, 3);
    for (const bool symmetric : {false, true}) {
      for (const DType dtype : {DType::kU8, DType::kI8}) {
        Graph qdq = golden.Clone();
        QuantizeOptions options;
        options.prepare = false;
        options.scheme.activations = {dtype, symmetric, false};
        auto report = QuantizeStatic(qdq, samples, *MakeReferenceBackend(), options);
        ASSERT_TRUE(report.ok()) << report.status().message();
        Graph q = qdq.Clone();
        const auto done = ConvertToQOperator(q, *report);
        ASSERT_TRUE(done.ok()) << done.status().message();
        EXPECT_GT(done->converted, 0);
        EXPECT_GT(SqnrDb(qdq, q, samples), 35) << text << Print(q);
        EXPECT_GT(SqnrDb(golden, q, samples), 20) << text;
        EXPECT_LT(Count(q, "DequantizeLinear"), Count(qdq, "DequantizeLinear"));
      }
    }
  }
}

TEST(QOperator, BoundsThatIntegersDoNotSaturateBecomeClip) {
  Graph g = MustParse(R"(graph g(x: f32[1,2,4,4]) -> (y: f32[1,2,4,4]) {
    w = const f32[2,2,1,1] ~1  v = const f32[2,2,1,1] ~2
    a = Conv(x, w)  r = Relu(a)  y = Conv(r, v) })");
  const Samples samples = NormalSamples(g, 4, 3);
  QuantizeOptions options;
  options.prepare = false;
  options.scheme.activations.symmetric = true;
  auto report = QuantizeStatic(g, samples, *MakeReferenceBackend(), options);
  ASSERT_TRUE(report.ok());
  const auto done = ConvertToQOperator(g, *report);
  ASSERT_TRUE(done.ok()) << done.status().message();
  EXPECT_EQ(Count(g, "QLinearConv"), 1);
  EXPECT_EQ(Count(g, "Clip"), 1);
  EXPECT_EQ(Count(g, "Relu"), 0);
  // The last Conv makes the model's output, which nobody rounds.
  ASSERT_EQ(done->kept.size(), 1u);
  EXPECT_THAT(done->kept[0].second, HasSubstr("no float result"));
  EXPECT_EQ(report->layers.back().precision, "int8-weights");
  ExpectCounted(*report);
}

TEST(StaticTypes, SixteenBitActivationsAndUnsignedWeights) {
  const Graph golden = MustParse(R"(graph g(x: f32[1,3,9,9]) -> (y: f32[1,5,9,9]) {
    w1 = const f32[8,3,3,3] ~1  b1 = const f32[8] ~2  w2 = const f32[5,8,3,3] ~3
    a = Conv(x, w1, b1) {pads=[1,1,1,1]}  r = Relu(a)  y = Conv(r, w2) {pads=[1,1,1,1]} })");
  const Samples samples = NormalSamples(golden, 8, 1);
  const auto sqnr = [&](QuantGrid activations, DType weights) {
    Graph g = golden.Clone();
    QuantizeOptions options;
    options.prepare = false;
    options.scheme.activations = activations;
    options.scheme.weights.dtype = weights;
    auto report = QuantizeStatic(g, samples, *MakeReferenceBackend(), options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    for (const QuantizedLayer& l : report->layers) EXPECT_EQ(l.widened_channels, 0);
    return SqnrDb(golden, g, samples);
  };
  const double u8 = sqnr({DType::kU8, false, false}, DType::kI8);
  EXPECT_GT(u8, 30);
  // Unsigned weights have the same codes around 128.
  EXPECT_NEAR(sqnr({DType::kU8, false, false}, DType::kU8), u8, 0.5);
  EXPECT_GT(sqnr({DType::kU8, true, false}, DType::kI8), u8 - 8);
  // 256 times finer steps: what is left is the error of the weights.
  EXPECT_GT(sqnr({DType::kU16, false, false}, DType::kI8), u8 + 3);
  EXPECT_GT(sqnr({DType::kI16, true, false}, DType::kI8), u8 + 3);
}

}  // namespace
}  // namespace infer
