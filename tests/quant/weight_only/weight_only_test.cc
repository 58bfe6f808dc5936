#include "quant/weight_only/weight_only.h"

#include <algorithm>
#include <map>

#include "lib/ir/eval.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/weight_only/round.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Weights that a grid of `bits` holds exactly, in every block of 16 and with whatever zero point:
/// [rows, depth] with the least and the largest code in each block, or turned round.
std::string Exact(int64_t rows, int64_t depth, int bits, bool turned, uint64_t seed = 1) {
  Random random(seed);
  const int codes = 1 << bits;
  std::vector<std::string> numbers(static_cast<size_t>(rows * depth));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < depth; ++k) {
      auto code = static_cast<int>(random.Below(static_cast<uint32_t>(codes)));
      if (k % 16 < 2) code = k % 16 == 0 ? 0 : codes - 1;
      numbers[static_cast<size_t>(turned ? k * rows + r : r * depth + k)] =
          Cat(0.25 * (code - codes / 2));
    }
  return Cat("const f32[", turned ? depth : rows, ",", turned ? rows : depth, "] {",
             Join(numbers, ", "), "}");
}

WeightOnlyOptions Form(WeightFormat format, int bits, int64_t block, bool symmetric) {
  WeightOnlyOptions o;
  o.prepare = false;
  o.scheme.format = format;
  o.scheme.grid = {bits, block, symmetric};
  return o;
}

QuantizeReport MustQuantize(Graph& g, const WeightOnlyOptions& options) {
  auto report = QuantizeWeightOnly(g, options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(Verify(g).ok()) << Verify(g).message();
  return report.ok() ? *std::move(report) : QuantizeReport();
}

int Count(const Graph& g, std::string_view op) {
  return static_cast<int>(std::count_if(g.nodes().begin(), g.nodes().end(),
                                        [&](const auto& n) { return n->op() == op; }));
}

std::vector<Tensor> Run(const Graph& g, const std::vector<Datum>& inputs) {
  std::vector<Tensor> out;
  const auto results = Evaluate(g, inputs);
  EXPECT_TRUE(results.ok()) << results.status().message();
  if (results.ok())
    for (const Datum& d : *results) out.push_back(d.tensor());
  return out;
}

Tensor Normal(Dims dims, uint64_t seed) {
  Random random(seed);
  Tensor t(DType::kF32, std::move(dims));
  for (float& x : t.mutable_data<float>()) x = static_cast<float>(random.Normal());
  return t;
}

/// What the original and the quantized graph give is the same but for the order of sums.
void ExpectSame(const Graph& a, const Graph& b, const std::vector<Datum>& inputs) {
  const std::vector<Tensor> want = Run(a, inputs), got = Run(b, inputs);
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(want[i].dims(), got[i].dims());
    for (int64_t j = 0; j < want[i].num_elements(); ++j)
      ASSERT_NEAR(want[i].At(j), got[i].At(j), 2e-4) << i << " at " << j;
  }
}

struct Spelled {
  WeightFormat format;
  int bits;
  int64_t block;
  bool symmetric;
};
const Spelled kForms[] = {
    {WeightFormat::kNBits, 2, 16, true}, {WeightFormat::kNBits, 2, 16, false},
    {WeightFormat::kNBits, 4, 32, true}, {WeightFormat::kNBits, 4, 16, false},
    {WeightFormat::kNBits, 8, 16, true}, {WeightFormat::kNBits, 8, 64, false},
    {WeightFormat::kQdq, 4, 16, true},   {WeightFormat::kQdq, 4, 32, false},
    {WeightFormat::kQdq, 8, 16, true},   {WeightFormat::kQdq, 8, 16, false},
    {WeightFormat::kQdq, 4, 0, true},    {WeightFormat::kQdq, 8, 0, false},
};

TEST(WeightOnly, EveryFormHoldsWhatItsGridHolds) {
  for (const Spelled& f : kForms) {
    SCOPED_TRACE(ToString(BlockGrid{f.bits, f.block, f.symmetric}));
    // Depths that are whole blocks and that are not; every spelling of a product with weights.
    const Graph golden =
        MustParse(Cat(R"(graph g(x: f32[2,3,64], i: i64[2,2]) -> (a, b, c, d) {
      w = )",
                      Exact(12, 64, f.bits, true), " v = ", Exact(48, 12, f.bits, true, 2), R"(
      u = )",
                      Exact(16, 48, f.bits, false, 3), " t = ", Exact(20, 40, f.bits, false, 4), R"(
      h = )",
                      Exact(20, 64, f.bits, false, 5), R"( k = const f32[16] ~8
      s = const i64[2] {6, 48}  l = const f32[3,1] {1, 2, 3}
      y = MatMul(x, w)  z = MatMul(y, v)  r = Reshape(z, s)
      a = Gemm(r, u, k) {transB=1}
      b = Gather(t, i)
      q = Transpose(h)  m = MatMul(x, q)  c = Add(m, l)
      e = Gather(h, i)  d = Neg(e) })"));
    Graph g = golden.Clone();
    // A depth of 12 is less than any block: v stays.
    const QuantizeReport report = MustQuantize(g, Form(f.format, f.bits, f.block, f.symmetric));
    EXPECT_EQ(report.integer_layers, 5);
    if (f.format == WeightFormat::kNBits) {
      EXPECT_EQ(Count(g, "MatMulNBits"), 3);
      EXPECT_EQ(Count(g, "GatherBlockQuantized"), 2);
      EXPECT_EQ(Count(g, "Reshape"), 2);  // of the table that a product shares
    } else {
      EXPECT_EQ(Count(g, "DequantizeLinear"), f.bits == 8 && f.block > 0 ? 5 : 4);
    }
    ExpectSame(golden, g, {Normal({2, 3, 64}, 9), Tensor::Of<int64_t>({2, 2}, {0, -1, 7, 19})});
  }
}

TEST(WeightOnly, TiedHeadsAreStoredOnce) {
  // The head reads the table through a Transpose, or a constant of its own of the same numbers.
  for (const bool own : {false, true})
    for (const Spelled& f : kForms) {
      const std::string head = own ? Cat("h = ", Exact(40, 64, f.bits, true), " ")
                                   : std::string("h = Transpose(t) {perm=[1, 0]} ");
      const Graph golden =
          MustParse(Cat("graph g(i: i64[3]) -> (y) { t = ", Exact(40, 64, f.bits, false), " ", head,
                        "e = Gather(t, i) y = MatMul(e, h) }"));
      Graph g = golden.Clone();
      const QuantizeReport report = MustQuantize(g, Form(f.format, f.bits, f.block, f.symmetric));
      ASSERT_EQ(report.layers.size(), 2u);
      EXPECT_THAT(report.layers[1].note, HasSubstr("shares the weights of"));
      EXPECT_EQ(report.layers[1].weight_bytes_after, 0);
      int codes = 0;
      for (const auto& v : g.values())
        codes += v->is_constant() && v->constant()->byte_size() >= 40 * 64 * f.bits / 8 &&
                 v->dtype() != DType::kF32;
      EXPECT_EQ(codes, 1);
      EXPECT_EQ(report.weight_bytes_after - (f.format == WeightFormat::kNBits ? 16 : 0),
                report.layers[0].weight_bytes_after - (f.format == WeightFormat::kNBits ? 16 : 0));
      ExpectSame(golden, g, {Tensor::Of<int64_t>({3}, {4, 0, 39})});
    }
}

/// MatMulNBits pads a row to whole blocks, GatherBlockQuantized does not: where no block divides
/// the depth each has its own codes, else the largest block that does is taken.
TEST(WeightOnly, TiedHeadsOfOddDepthsStayRight) {
  struct Case {
    int64_t depth, block;  // 0: apart
  };
  for (const Case c : {Case{312, 0}, {48, 16}, {96, 32}, {80, 16}, {24, 0}})
    for (const int bits : {4, 8})
      for (const bool symmetric : {true, false})
        for (const int tie : {0, 1, 2}) {
          SCOPED_TRACE(Cat(c.depth, ", ", bits, " bits, ", symmetric, ", tie ", tie));
          const std::string table = Exact(40, c.depth, bits, false);
          const std::string heads[] = {
              "h = Transpose(t) {perm=[1, 0]} y = MatMul(e, h)", "y = Gemm(e, t) {transB=1}",
              Cat("h = ", Exact(40, c.depth, bits, true), " y = MatMul(e, h)")};
          const Graph golden = MustParse(Cat("graph g(i: i64[3]) -> (y) { t = ", table,
                                             " e = Gather(t, i) ", heads[tie], " }"));
          Graph g = golden.Clone();
          const QuantizeReport report =
              MustQuantize(g, Form(WeightFormat::kNBits, bits, 64, symmetric));
          ASSERT_EQ(report.layers.size(), 2u);
          ASSERT_EQ(report.integer_layers, 2);
          EXPECT_EQ(report.layers[1].weight_bytes_after == 0, c.block > 0);
          EXPECT_EQ(Count(g, "Reshape"), c.block > 0 ? 1 : 0);
          for (const auto& n : g.nodes())
            if (n->Is("MatMulNBits", "com.microsoft") && c.block > 0) {
              EXPECT_EQ(n->Attr<int64_t>("block_size"), c.block);
            }
          ExpectSame(golden, g, {Tensor::Of<int64_t>({3}, {4, 0, 39})});
        }
}

/// Two copies where one with the small block that divides takes more bytes than both.
TEST(WeightOnly, TiedHeadsAreStoredTwiceWhereThatIsLess) {
  Graph g = MustParse(R"(graph g(i: i64[3]) -> (y) {
    t = const f32[40,1008] ~1  e = Gather(t, i)  y = Gemm(e, t) {transB=1} })");
  WeightOnlyOptions options = Form(WeightFormat::kNBits, 8, 256, false);
  options.scheme.lookup_bits = 2;
  const QuantizeReport report = MustQuantize(g, options);
  ASSERT_EQ(report.layers.size(), 2u);
  EXPECT_EQ(report.layers[0].precision, "int2");
  EXPECT_EQ(report.layers[1].precision, "int8-weights");
  options.scheme.lookup_bits = 0;
  g = MustParse(R"(graph g(i: i64[3]) -> (y) {
    t = const f32[40,1008] ~1  e = Gather(t, i)  y = Gemm(e, t) {transB=1} })");
  EXPECT_EQ(MustQuantize(g, options).layers[1].weight_bytes_after, 0);
}

TEST(WeightOnly, SaysWhyWeightsStay) {
  Graph g = MustParse(R"(graph g(x: f32[4,32], p: f32[32,32], i: i64[2]) -> (a, b, c, d, e, f, h) {
    w = const f32[32,32] ~1  s = const f32[32,4] ~2  t = const f32[32,32] ~3  r = const f32[32,32] ~4
    o = const f32[4,32] ~5  k = const f32[32,64] ~6  n = const f32[32,32] ~7
    a = MatMul(x, w)
    b = MatMul(x, p)
    c = MatMul(x, s)
    y = MatMul(x, t)  z = Neg(t)  d = MatMul(y, z)
    e = MatMul(o, r)
    f = Gather(k, i) {axis=1}
    h = Gemm(x, n) {alpha=0.5} })");
  WeightOnlyOptions options = Form(WeightFormat::kNBits, 4, 32, true);
  options.scheme.exclude = {{NodePattern::Kind::kGlob, "e"}};
  const QuantizeReport report = MustQuantize(g, options);
  std::map<std::string, std::string> why;
  for (const QuantizedLayer& l : report.layers) why[l.name] = l.reason;
  EXPECT_EQ(why["a"], "");
  EXPECT_EQ(why["b"], "both operands are computed");
  EXPECT_EQ(why["c"], "too small: 128 numbers");
  EXPECT_THAT(why["y"], HasSubstr("also read by Neg"));
  EXPECT_THAT(why["e"], HasSubstr("excluded by glob 'e'"));
  EXPECT_THAT(why["f"], HasSubstr("along axis 1"));
  EXPECT_EQ(why["h"], "alpha, beta or transA is set");
  EXPECT_EQ(report.integer_layers, 1);
}

TEST(WeightOnly, LayersGoTo8BitsWhereTheyErrLittle) {
  const std::string text = R"(graph g(x: f32[1,16,8,8], q: f32[5,1,16]) -> (y, h) {
    w = const f32[8,16,3,3] ~1  a = const f32[1,64,16] ~2  b = const f32[1,64,16] ~3
    y = Conv(x, w) {pads=[1,1,1,1]}
    _, h = LSTM(q, a, b) {hidden_size=16} })";
  Graph g = MustParse(text);
  const QuantizeReport report = MustQuantize(g, Form(WeightFormat::kNBits, 4, 32, true));
  EXPECT_EQ(Count(g, "DequantizeLinear"), 0);
  EXPECT_EQ(Count(g, "Cast"), 3);
  EXPECT_EQ(Count(g, "Mul"), 3);
  // One byte a weight, and a scale per channel: 8 of Conv, 64 of each matrix of the LSTM.
  EXPECT_EQ(report.weight_bytes_after, 8 * 16 * 9 + 8 * 4 + 2 * (64 * 16 + 64 * 4));
  for (const QuantizedLayer& l : report.layers) {
    EXPECT_EQ(l.precision, "int8-weights");
    EXPECT_GT(l.weight_error, 1e-3);
    EXPECT_LT(l.weight_error, 0.02);
  }
  WeightOnlyOptions strict = Form(WeightFormat::kNBits, 4, 32, true);
  strict.scheme.layer_error = 1e-4;
  g = MustParse(text);
  const auto nothing = QuantizeWeightOnly(g, strict);
  ASSERT_FALSE(nothing.ok());
  EXPECT_THAT(nothing.status().message(), HasSubstr("8 bits would err by"));
}

TEST(WeightOnly, BlocksShrinkWherePaddingWouldCostMore) {
  // Blocks of 64 would pad a depth of 40 to 64 codes; of 16, to 48.
  Graph g = MustParse("graph g(x: f32[2,40]) -> (y) { w = const f32[40,64] ~1 y = MatMul(x, w) }");
  MustQuantize(g, Form(WeightFormat::kNBits, 8, 64, true));
  EXPECT_EQ(g.nodes().front()->Attr<int64_t>("block_size"), 16);
}

TEST(WeightOnly, MethodsAreReportedAndHelp) {
  const std::string text =
      "graph g(x: f32[2,256]) -> (y) { w = const f32[256,64] ~1 y = MatMul(x, w) }";
  for (const std::string& method : RounderNames()) {
    Graph g = MustParse(text);
    WeightOnlyOptions options = Form(WeightFormat::kNBits, 4, 64, true);
    options.rounder = [&](const Graph&, const WeightPlan& plan) {
      EXPECT_EQ(plan.groups.size(), 1u);
      return RounderNamed(method);
    };
    const QuantizeReport report = MustQuantize(g, options);
    EXPECT_EQ(report.layers[0].method, method);
    if (method != "nearest")
      EXPECT_LT(report.layers[0].weight_error, report.layers[0].nearest_error);
    else
      EXPECT_EQ(report.layers[0].weight_error, report.layers[0].nearest_error);
  }
}

TEST(WeightOnly, RefusesWhatFormatsCannotHold) {
  const std::string text =
      "graph g(x: f32[2,256]) -> (y) { w = const f32[256,64] ~1 y = MatMul(x, w) }";
  for (const Spelled& f :
       {Spelled{WeightFormat::kNBits, 4, 0, true}, Spelled{WeightFormat::kQdq, 2, 32, true},
        Spelled{WeightFormat::kNBits, 3, 32, true}}) {
    Graph g = MustParse(text);
    const uint64_t before = Fingerprint(g);
    EXPECT_FALSE(QuantizeWeightOnly(g, Form(f.format, f.bits, f.block, f.symmetric)).ok());
    EXPECT_EQ(Fingerprint(g), before);
  }
}

TEST(WeightOnly, PackedRowsBeginWithTheLowestBits) {
  const std::vector<uint8_t> codes = {1, 2, 3, 0, 1, 2}, fill = {3, 2};
  const auto bytes = PackRows(codes, 2, 3, 4, 2, fill, {2, 1}).ToInts();
  EXPECT_THAT(bytes, ElementsAre(1 | 2 << 2 | 3 << 4 | 3 << 6, 0 | 1 << 2 | 2 << 4 | 2 << 6));
  EXPECT_THAT(PackRows(std::vector<uint8_t>{5, 9}, 1, 2, 2, 4, fill, {1}).ToInts(),
              ElementsAre(5 | 9 << 4));
}

}  // namespace
}  // namespace infer
