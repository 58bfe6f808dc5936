/// Valid models on which a backend once ended, or gave what the reference does not.
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// The standard's function of Celu is its formula for positive alphas only.
TEST(Refusals, CeluOfANegativeAlpha) {
  CheckGraph("graph g(x: f32[2,5]) -> (y) { y = Celu(x) {alpha=-0.75} }");
}

/// The rank of C is the run's to tell: one of three axes fits no Gemm, on no level.
TEST(Refusals, GemmWithABiasOfThreeAxes) {
  auto g = ParseGraph(
      "graph g(x: f32[5,4], c: f32[*]) -> (y: f32[5,8]) { w = const f32[4,8] ~1 y = Gemm(x, w, c) "
      "}",
      SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  for (const Dims& dims : {Dims{2, 5, 8}, Dims{1, 1, 8}, Dims{8}}) {
    const std::vector<Datum> inputs = {Tensor::Zeros(DType::kF32, {5, 4}),
                                       Tensor::Zeros(DType::kF32, dims)};
    const auto want = Evaluate(*g, inputs);
    EXPECT_EQ(want.ok(), dims.size() == 1);
    for (const int level : DifferentLevels()) {
      const auto program = BackendUnderTest().Compile(*g, {.level = level});
      ASSERT_TRUE(program.ok()) << program.status().message();
      EXPECT_EQ(RunOnce(**program, inputs).status().code(), want.status().code())
          << "level " << level << ", C is " << ToString(dims);
    }
  }
}

TEST(Refusals, AttentionOfEmptyHeads) {
  CheckGraph(R"(graph g(x: f32[2,3,5]) -> (y) {
    w = const f32[5,0] {}
    b = const f32[0] {}
    y = com.microsoft::Attention(x, w, b) {num_heads=2} })");
}

/// Later keys are hidden from nobody.
TEST(Refusals, AttentionWithoutQueries) {
  CheckGraph(
      "graph g(q: f32[2,0,4], k: f32[2,5,4], v: f32[2,5,6]) -> (y) { y = "
      "com.microsoft::MultiHeadAttention(q, k, v) {num_heads=2, unidirectional=1} }");
}

TEST(Refusals, RotaryEmbeddingOfAnEmptyCache) {
  auto g = ParseGraph(R"(graph g(x: f32[1,3,8], p: i64[1], c: f32[4,0]) -> (y) {
    y = com.microsoft::RotaryEmbedding(x, p, c, c) })",
                      SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto program = BackendUnderTest().Compile(*g, {});
  if (!program.ok()) return;
  const std::vector<Datum> inputs = {Tensor::Zeros(DType::kF32, {1, 3, 8}), Tensor::Int64s({0}),
                                     Tensor::Zeros(DType::kF32, {4, 0})};
  EXPECT_EQ(RunOnce(**program, inputs).status().code(), Evaluate(*g, inputs).status().code());
}

/// As many positions as there are tokens, but in other axes.
TEST(Refusals, RotaryEmbeddingOfTransposedPositions) {
  for (std::string_view node : {"RotaryEmbedding(x, c, c, p) {num_heads=2}",
                                "com.microsoft::RotaryEmbedding(x, p, c, c) {num_heads=2}"}) {
    auto g = ParseGraph(
        Cat("graph g(x: f32[1,3,8], p: i64[3,1], c: f32[4,2]) -> (y) { y = ", node, " }"),
        SuiteOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const std::vector<Datum> inputs = {Tensor::Zeros(DType::kF32, {1, 3, 8}),
                                       Tensor::Zeros(DType::kI64, {3, 1}),
                                       Tensor::Zeros(DType::kF32, {4, 2})};
    EXPECT_EQ(Evaluate(*g, inputs).status().code(), Code::kInvalidModel) << node;
    const auto program = BackendUnderTest().Compile(*g, {});
    if (!program.ok()) continue;
    EXPECT_EQ(RunOnce(**program, inputs).status().code(), Code::kInvalidModel) << node;
  }
}

/// The operand's element type comes with the run.
TEST(Refusals, HalvesBesideAnUndeclaredType) {
  auto g = ParseGraph("graph g(x: ?[4], y: f16[4]) -> (z) { z = Mod(x, y) {fmod=1} }", SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const Tensor t = Tensor::Of<float>({4}, {1, 2, 3, 4}).Cast(DType::kF16);
  const auto program = BackendUnderTest().Compile(*g, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto out = RunOnce(**program, std::vector<Datum>{t, t});
  EXPECT_TRUE(out.ok()) << out.status().message();
}

TEST(Refusals, ResultsThatNoKernelMakes) {
  for (std::string_view read : {"z = Shape(m)", "z = Cast(m) {to=10}", "z = Identity(m)", ""}) {
    SCOPED_TRACE(read);
    auto g = ParseGraph(Cat("graph g(x: f32[2,3], c: f32[3]) -> (y, ", read.empty() ? "m" : "z",
                            ") { y, m = BatchNormalization(x, c, c, c, c)\n", read, " }"),
                        SuiteOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const std::vector<Datum> inputs = {Tensor::Zeros(DType::kF32, {2, 3}),
                                       Tensor::Zeros(DType::kF32, {3})};
    EXPECT_EQ(Evaluate(*g, inputs).status().code(), Code::kInvalidModel);
    const auto program = BackendUnderTest().Compile(*g, {});
    if (!program.ok()) continue;
    EXPECT_EQ(RunOnce(**program, inputs).status().code(), Code::kInvalidModel);
  }
}

TEST(Refusals, GatherIndexOutOfRange) {
  auto g = ParseGraph("graph g(x: u32[3,1], i: i64[2]) -> (y) { y = Gather(x, i) {axis=1} }",
                      SuiteOps());
  ASSERT_TRUE(g.ok());
  const auto program = BackendUnderTest().Compile(*g, {});
  ASSERT_TRUE(program.ok());
  const std::vector<Datum> inputs = {Tensor::Zeros(DType::kU32, {3, 1}), Tensor::Int64s({2, -3})};
  EXPECT_EQ(RunOnce(**program, inputs).status().code(), Code::kInvalidModel);
}

/// A slope broadcasts to x and never the other way: refused before the run where the extents are
/// known, else in it, on every level.
TEST(Refusals, PReluWhoseSlopeDoesNotBroadcast) {
  for (const std::string_view inputs :
       {"x: f32[2,6], s: f32[7]", "x: f32[6], s: f32[2,6]", "x: f32[2,1], s: f32[6]"}) {
    const auto g = ParseGraph(Cat("graph g(", inputs, ") -> (y) { y = PRelu(x, s) }"), SuiteOps());
    EXPECT_EQ(g.status().code(), Code::kInvalidModel) << inputs;
  }
  const std::pair<Dims, Dims> wrong[] = {{{2, 6}, {7}}, {{6}, {2, 6}}, {{2, 1}, {6}}},
                              right[] = {{{2, 6}, {6}}, {{2, 6}, {2, 1}}, {{6}, {1}}};
  for (const std::string_view inputs :
       {"x: f32[*], s: f32[*]", "x: f16[*], s: f16[*]", "x: i32[*], s: i32[*]"}) {
    auto g = ParseGraph(Cat("graph g(", inputs, ") -> (y) { y = PRelu(x, s) }"), SuiteOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const DType type = g->inputs()[0]->dtype();
    for (const int level : DifferentLevels()) {
      const auto program = BackendUnderTest().Compile(*g, {.level = level});
      ASSERT_TRUE(program.ok()) << program.status().message();
      const auto run = [&](const std::pair<Dims, Dims>& dims) {
        const std::vector<Datum> given = {Tensor::Zeros(type, dims.first),
                                          Tensor::Zeros(type, dims.second)};
        EXPECT_EQ(Evaluate(*g, given).status().code(), RunOnce(**program, given).status().code());
        return RunOnce(**program, given).status();
      };
      for (const auto& dims : wrong)
        EXPECT_EQ(run(dims).code(), Code::kInvalidModel)
            << inputs << ToString(dims.first) << ToString(dims.second) << ", level " << level;
      for (const auto& dims : right) EXPECT_TRUE(run(dims).ok()) << ToString(dims.second);
    }
  }
}

/// Extents that libraries keep in 32 bits: refused or compiled, never a trap of theirs. Nothing of
/// that size is run.
TEST(Refusals, ExtentsThatNoDescriptorHolds) {
  int compiled = 0;
  for (const std::string_view n : {"2147483647", "2147483648", "4294967296", "1099511627776"})
    for (const auto& [inputs, call] : std::vector<std::pair<std::string, std::string>>{
             {Cat("x: f32[", n, ",2], w: f32[2,3]"), "MatMul(x, w)"},
             {Cat("x: f32[2,", n, "], w: f32[", n, ",3]"), "MatMul(x, w)"},
             {Cat("x: f32[2,3], w: f32[3,", n, "]"), "Gemm(x, w)"},
             {Cat("x: f32[1,2,", n, ",1], w: f32[3,2,1,1]"), "Conv(x, w)"},
             {Cat("x: f32[", n, ",2,3,3], w: f32[3,2,1,1]"), "Conv(x, w)"},
             {Cat("x: f32[1,2,", n, ",1], w: f32[2,3,1,1]"), "ConvTranspose(x, w)"},
             {Cat("x: f32[1,2,", n, ",1]"), "MaxPool(x) {kernel_shape=[1,1]}"},
             {Cat("x: f32[2,", n, "]"), "Softmax(x)"},
             {Cat("x: f32[", n, ",2], s: f32[2]"), "LayerNormalization(x, s)"},
             {Cat("x: u8[", n, ",2], w: u8[2,3]"), "MatMulInteger(x, w)"},
             {Cat("x: f32[", n, ",2], s: f32[], z: u8[]"), "QuantizeLinear(x, s, z)"},
             {Cat("x: u8[", n, ",2], s: f32[], z: u8[]"), "DequantizeLinear(x, s, z)"}}) {
      auto g = ParseGraph(Cat("graph g(", inputs, ") -> (y) { y = ", call, " }"), SuiteOps());
      if (!g.ok()) continue;
      for (const int level : DifferentLevels()) {
        const auto program = BackendUnderTest().Compile(*g, {.level = level});
        if (program.ok())
          ++compiled;
        else
          EXPECT_NE(program.status().code(), Code::kInternal) << program.status().message();
      }
    }
  EXPECT_GT(compiled, 0);
}

TEST(Refusals, AffineGridOfAnotherBatch) {
  auto g = ParseGraph(R"(graph g(t: f32[B,2,3]) -> (y) {
    s = const i64[4] {1,1,0,2}
    y = AffineGrid(t, s) })",
                      SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto program = BackendUnderTest().Compile(*g, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const std::vector<Datum> inputs = {Tensor::Zeros(DType::kF32, {3, 2, 3})};
  EXPECT_EQ(RunOnce(**program, inputs).status().code(), Code::kInvalidModel);
}

/// Inference knows what the first number must be; only the run knows what it is.
TEST(Refusals, ReshapeToExtentsThatAreDeduced) {
  auto g = ParseGraph(R"(graph g(x: f32[2,2], s: i64[1]) -> (y) {
    rest = const i64[3] {1, 1, 2}
    all = Concat(s, rest) {axis=0}
    y = Reshape(x, all) })",
                      SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  for (const int level : DifferentLevels()) {
    const auto program = BackendUnderTest().Compile(*g, {.level = level});
    ASSERT_TRUE(program.ok()) << program.status().message();
    for (const int64_t first : {2, -1, 3, -2, 0, 1 << 20}) {
      const std::vector<Datum> inputs = {Tensor::Zeros(DType::kF32, {2, 2}),
                                         Tensor::Int64s({first})};
      const auto want = Evaluate(*g, inputs), got = RunOnce(**program, inputs);
      EXPECT_EQ(got.status().code(), want.status().code()) << first << ", level " << level;
      if (want.ok()) {
        EXPECT_EQ((*got)[0].tensor().dims(), (*want)[0].tensor().dims()) << first;
      }
    }
  }
}

}  // namespace
}  // namespace infer
