/// Compute::kBF16: products whose operands are rounded to bf16 and whose sums are f32. A product by
/// itself is held to the reference of rounded operands, as closely as f32 is to its own; networks
/// to f32 within ten units of bf16's rounding.
#include <algorithm>

#include "lib/ir/editor.h"
#include "lib/support/isa.h"
#include "lib/support/parallel.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

constexpr double kSumsInF32 = 2e-5, kNetwork = 10 * 0x1p-8;

bool Computes() { return BackendUnderTest().HowComputes(Compute::kBF16).ok(); }

Tensor Rounded(const Tensor& t) { return t.Cast(DType::kBF16).Cast(DType::kF32); }

struct Bf16Run {
  std::vector<Datum> outputs;
  std::vector<StepInfo> steps;
};

Bf16Run RunBf16(const Graph& g, const std::vector<Datum>& inputs, int threads = 1, int level = 2) {
  Bf16Run run;
  auto program = BackendUnderTest().Compile(
      g, {.level = level, .compute = Compute::kBF16, .threads = threads});
  EXPECT_TRUE(program.ok()) << program.status().message();
  if (!program.ok()) return run;
  run.steps = (*program)->steps();
  auto got = RunOnce(**program, inputs);
  EXPECT_TRUE(got.ok()) << got.status().message();
  if (got.ok()) run.outputs = *std::move(got);
  return run;
}

int64_t StepsInBf16(const std::vector<StepInfo>& steps) {
  return std::count_if(steps.begin(), steps.end(),
                       [](const StepInfo& s) { return s.precision.starts_with("bf16"); });
}

std::vector<Datum> Inputs(const Graph& g, uint64_t seed) {
  Random random(seed);
  std::vector<Datum> inputs;
  for (const Value* v : g.inputs()) inputs.push_back(RandomInput(v->dtype(), DimsOf(*v), random));
  return inputs;
}

/// oneDNN adds nothing behind an activation there, so that such a product stays in f32.
bool HasNoAvx512() {
  const char* cap = std::getenv("INFER_MAX_ISA");
  const std::string_view isa = cap ? cap : "";
  if (!HasIsa(Isa::kAvx512)) return true;
  return isa == "sse4" || isa.starts_with("avx2") || isa == "avx";
}

/// One product, x by w, is the reference of rounded x and w.
void CheckProduct(const std::string& text, bool stays = false) {
  auto g = ParseGraph(text, SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message() << "\n" << text;
  const std::vector<Datum> inputs = Inputs(*g, 3);
  const Bf16Run got = RunBf16(*g, inputs);
  ASSERT_FALSE(got.outputs.empty()) << text;
  EXPECT_EQ(StepsInBf16(got.steps), stays ? 0 : 1)
      << text << ": " << Join(got.steps[0].refusals, "; ");
  ExpectFast(got.steps);
  std::vector<Datum> rounded = inputs;
  if (!stays) {
    GraphEditor(*g).SetConstant(g->FindValue("w"), Rounded(*g->FindValue("w")->constant()));
    rounded[0] = Rounded(inputs[0].tensor());
  }
  const auto want = Evaluate(*g, rounded);
  ASSERT_TRUE(want.ok()) << want.status().message();
  ExpectClose(got.outputs[0], (*want)[0], kSumsInF32, text);
}

/// The network is that of f32 within its tolerance, on as many bf16 steps, with the same bits on
/// any number of threads.
void CheckNetwork(const std::string& text, int64_t in_bf16) {
  auto g = ParseGraph(text, SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message() << "\n" << text;
  const std::vector<Datum> inputs = Inputs(*g, 5);
  const auto want = Evaluate(*g, inputs);
  ASSERT_TRUE(want.ok()) << want.status().message();
  const int before = LaneBudget();
  SetLaneBudget(7);
  std::optional<Tensor> first;
  for (const int threads : {1, 2, 3, 7}) {
    const Bf16Run got = RunBf16(*g, inputs, threads);
    if (got.outputs.empty()) break;
    EXPECT_EQ(StepsInBf16(got.steps), in_bf16) << text;
    ExpectFast(got.steps);
    ExpectClose(got.outputs[0], (*want)[0], kNetwork, text);
    if (!first) first = got.outputs[0].tensor();
    EXPECT_TRUE(BitEqual(got.outputs[0].tensor(), *first)) << threads << " threads, " << text;
  }
  SetLaneBudget(before);
}

TEST(Bf16, OtherBackendsRefuse) {
  if (Computes()) return;
  auto g = ParseGraph("graph g(x: f32[2]) -> (y) { y = Relu(x) }", SuiteOps());
  ASSERT_TRUE(g.ok());
  const auto program = BackendUnderTest().Compile(*g, {.compute = Compute::kBF16});
  EXPECT_EQ(program.status().code(), Code::kUnsupported);
  EXPECT_THAT(program.status().message(), ::testing::HasSubstr("bf16"));
}

TEST(Bf16, Convolutions) {
  if (!Computes()) GTEST_SKIP() << "another backend";
  for (const char* attributes :
       {"", "{pads=[1,1,1,1]}", "{strides=[2,2], pads=[0,1,1,0]}", "{dilations=[2,2]}"})
    for (const int64_t channels : {24, 64})
      for (const int64_t filters : {40, 130})
        CheckProduct(Cat("graph g(x: f32[2,", channels, ",14,11]) -> (y) { w = const f32[", filters,
                         ",", channels, ",3,3] ~1 b = const f32[", filters,
                         "] ~2 y = Conv(x, w, b)", attributes, " }"));
  for (const int64_t channels : {33, 256})
    CheckProduct(Cat("graph g(x: f32[1,", channels, ",16,15]) -> (y) { w = const f32[129,",
                     channels, ",1,1] ~1 y = Conv(x, w) }"));
  CheckProduct(
      "graph g(x: f32[1,3,64,64]) -> (y) { w = const f32[64,3,7,7] ~1 "
      "y = Conv(x, w) {strides=[2,2], pads=[3,3,3,3]} }");
  CheckProduct("graph g(x: f32[1,48,300]) -> (y) { w = const f32[64,48,5] ~1 y = Conv(x, w) }");
  CheckProduct(
      "graph g(x: f32[1,16,8,9,7]) -> (y) { w = const f32[32,16,3,3,3] ~1 "
      "y = Conv(x, w) {pads=[1,1,1,1,1,1]} }");
}

TEST(Bf16, TransposedConvolutions) {
  if (!Computes()) GTEST_SKIP() << "another backend";
  for (const char* attributes : {"", "{strides=[2,2]}", "{strides=[2,2], pads=[1,1,1,1]}"})
    CheckProduct(
        Cat("graph g(x: f32[1,64,14,13]) -> (y) { w = const f32[64,48,4,4] ~1 "
            "y = ConvTranspose(x, w)",
            attributes, " }"));
}

TEST(Bf16, MatrixProducts) {
  if (!Computes()) GTEST_SKIP() << "another backend";
  for (const int64_t rows : {1, 7, 16, 65, 197})
    for (const int64_t depth : {770, 1031})
      for (const int64_t columns : {700, 769})
        CheckProduct(Cat("graph g(x: f32[", rows, ",", depth, "]) -> (y) { w = const f32[", depth,
                         ",", columns, "] ~1 b = const f32[", columns,
                         "] ~2 p = MatMul(x, w) y = Add(p, b) }"));
  CheckProduct("graph g(x: f32[2,3,40,100]) -> (y) { w = const f32[100,90] ~1 y = MatMul(x, w) }");
  for (const char* attributes : {"{transB=1}", "{transB=1, beta=0.25}"})
    CheckProduct(
        Cat("graph g(x: f32[33,700]) -> (y) { w = const f32[65,700] ~1 c = const f32[65] "
            "~2 y = Gemm(x, w, c)",
            attributes, " }"));
}

TEST(Bf16, Epilogues) {
  if (!Computes()) GTEST_SKIP() << "another backend";
  for (const std::string_view after : {"y = Relu(p)", "y = Gelu(p)", "y = Add(p, r)",
                                       "s = Add(p, r) y = Relu(s)", "s = Relu(p) y = Add(s, r)"}) {
    // Winograd takes the convolution whole there, in f32; the product runs in parts.
    const bool stays = after.starts_with("s = Relu") && HasNoAvx512();
    CheckProduct(Cat("graph g(x: f32[1,64,14,14], r: f32[1,96,14,14]) -> (y) { w = const "
                     "f32[96,64,3,3] ~1 p = Conv(x, w) {pads=[1,1,1,1]} ",
                     after, " }"),
                 stays);
    CheckProduct(
        Cat("graph g(x: f32[50,300], r: f32[50,200]) -> (y) { w = const f32[300,200] ~1 "
            "p = MatMul(x, w) ",
            after, " }"));
  }
}

TEST(Bf16, SmallProductsStay) {
  if (!Computes()) GTEST_SKIP() << "another backend";
  for (const char* text :
       {"graph g(x: f32[4,30]) -> (y) { w = const f32[30,20] ~1 y = MatMul(x, w) }",
        "graph g(x: f32[1,8,90,90]) -> (y) { w = const f32[10,8,1,1] ~1 y = Conv(x, w) }",
        "graph g(x: f32[1,64,40,40]) -> (y) { w = const f32[64,1,3,3] ~1 "
        "y = Conv(x, w) {group=64} }"}) {
    auto g = ParseGraph(text, SuiteOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const std::vector<Datum> inputs = Inputs(*g, 3);
    const auto want = Evaluate(*g, inputs);
    const Bf16Run got = RunBf16(*g, inputs);
    ASSERT_TRUE(want.ok() && !got.outputs.empty());
    ExpectClose(got.outputs[0], (*want)[0], 1e-5, text);
    ASSERT_EQ(got.steps.size(), 1u);
    EXPECT_EQ(got.steps[0].precision, "f32");
    ExpectFast(got.steps);
    EXPECT_THAT(got.steps[0].refusals, ::testing::Contains(::testing::StartsWith("bf16: ")));
  }
}

TEST(Bf16, LevelZeroStays) {
  if (!Computes()) GTEST_SKIP() << "another backend";
  const char* text =
      "graph g(x: f32[50,300]) -> (y) { w = const f32[300,200] ~1 y = MatMul(x, w) }";
  auto g = ParseGraph(text, SuiteOps());
  ASSERT_TRUE(g.ok());
  const Bf16Run got = RunBf16(*g, Inputs(*g, 3), 1, 0);
  ASSERT_EQ(got.steps.size(), 1u);
  EXPECT_EQ(got.steps[0].precision, "f32");
  ExpectFast(got.steps);
}

/// Values between products lie in bf16: residuals, pools, an activation, a reader in f32 beside.
TEST(Bf16, Networks) {
  if (!Computes()) GTEST_SKIP() << "another backend";
  constexpr const char* kConvs =
      "v = const f32[64,3,7,7] ~9 w = const f32[64,64,3,3] ~1 u = const f32[64,64,3,3] ~2 "
      "b = const f32[64] ~3 k = const f32[64,1,1] ~8 ";
  constexpr const char* kStem =
      "s = Conv(x, v, b) {strides=[2,2], pads=[3,3,3,3]} sr = Relu(s) "
      "m = MaxPool(sr) {kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]} ";
  constexpr const char* kBlock =
      "c = Conv(m, w, b) {pads=[1,1,1,1]} cr = Relu(c) d = Conv(cr, u) {pads=[1,1,1,1]} "
      "e = Add(d, m) ";
  for (const char* last :
       {"y = Relu(e)", "er = Relu(e) y = Conv(er, w) {pads=[1,1,1,1]}",
        "er = Relu(e) y = GlobalAveragePool(er)", "er = Relu(e) y = Mul(er, k)",
        "er = Relu(e) z = Conv(er, u) {pads=[1,1,1,1]} t = Mul(er, k) y = Add(z, t)"}) {
    const bool fourth = std::string_view(last).find("Conv") != std::string_view::npos;
    CheckNetwork(Cat("graph g(x: f32[1,3,96,96]) -> (y) { ", kConvs, kStem, kBlock, last, " }"),
                 fourth ? 4 : 3);
  }
  CheckNetwork(
      "graph g(x: f32[60,192]) -> (y) { w = const f32[192,768] ~1 b = const f32[768] ~2 "
      "u = const f32[768,192] ~3 p = MatMul(x, w) q = Add(p, b) a = Gelu(q) r = MatMul(a, u) "
      "s = Add(r, x) g = const f32[192] ~4 h = const f32[192] ~5 "
      "y = LayerNormalization(s, g, h) {axis=-1} }",
      2);
}

/// What a file holds in bf16 is multiplied in bf16, too; the same weights then, to the bit.
TEST(Bf16, ModelsInBf16) {
  if (!Computes()) GTEST_SKIP() << "another backend";
  auto g = ParseGraph(
      "graph g(x: bf16[50,300]) -> (y) { w = const bf16[300,200] ~1 "
      "p = MatMul(x, w) y = Relu(p) }",
      SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const std::vector<Datum> inputs = Inputs(*g, 3);
  const auto want = Evaluate(*g, inputs);
  const Bf16Run got = RunBf16(*g, inputs);
  ASSERT_TRUE(want.ok() && !got.outputs.empty());
  EXPECT_EQ(StepsInBf16(got.steps), 1);
  ExpectFast(got.steps);
  ExpectClose(got.outputs[0], (*want)[0], 0x1p-8, "rounded once");
}

TEST(Bf16, OpenShapes) {
  if (!Computes()) GTEST_SKIP() << "another backend";
  auto g = ParseGraph(
      "graph g(x: f32[N,300]) -> (y) { w = const f32[300,200] ~1 u = const "
      "f32[200,100] ~2 p = MatMul(x, w) q = Relu(p) y = MatMul(q, u) }",
      SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  auto program = BackendUnderTest().Compile(*g, {.compute = Compute::kBF16});
  ASSERT_TRUE(program.ok()) << program.status().message();
  Random random(1);
  for (const int64_t rows : {1, 9, 100}) {
    const std::vector<Datum> inputs = {RandomInput(DType::kF32, {rows, 300}, random)};
    const auto want = Evaluate(*g, inputs);
    const auto got = RunOnce(**program, inputs);
    ASSERT_TRUE(want.ok() && got.ok()) << got.status().message();
    ExpectClose((*got)[0], (*want)[0], kNetwork, Cat(rows, " rows"));
  }
}

}  // namespace
}  // namespace infer
