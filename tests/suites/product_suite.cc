/// Matrix products with constant weights whose rows, depth and columns meet or miss the panels of
/// the fast kernel, with what may follow them.
#include <array>

#include "lib/ir/editor.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

TEST(Product, Shapes) {
  for (int64_t rows : {11, 12, 13, 27, 29, 130, 230})
    for (int64_t depth : {1, 5, 16, 100, 800})
      for (int64_t columns : {1, 31, 32, 33, 96})
        ExpectFast(CheckGraph(Cat("graph g(x: f32[", rows, ",", depth, "]) -> (y) { w = const f32[",
                                  depth, ",", columns, "] ~1 y = MatMul(x, w) }"),
                              static_cast<uint64_t>(rows)));
}

TEST(Product, DeepAndInBatches) {
  ExpectFast(CheckGraph(
      "graph g(x: f32[2,9,1700]) -> (y) { w = const f32[1700,40] ~1 y = MatMul(x, w) }"));
  ExpectFast(
      CheckGraph("graph g(x: f32[3,2,7,20]) -> (y) { w = const f32[20,40] ~1 y = MatMul(x, w) }"));
  ExpectFast(
      CheckGraph("graph g(x: f32[500,70]) -> (y) { w = const f32[70,33] ~1 y = MatMul(x, w) }"));
}

TEST(Product, Gemm) {
  for (int64_t columns : {32, 45})
    for (std::string_view attributes :
         {"", "{transB=1}", "{alpha=0.5}", "{transB=1, alpha=-2.0, beta=0.25}", "{transA=1}"}) {
      const bool t = attributes.find("transB") != std::string_view::npos;
      const bool ta = attributes.find("transA") != std::string_view::npos;
      for (std::string_view c : {"", "s", "v", "m"}) {
        const std::string bias = c.empty()  ? ""
                                 : c == "s" ? "c = const f32[1] ~2 "
                                 : c == "v" ? Cat("c = const f32[", columns, "] ~2 ")
                                            : Cat("c = const f32[20,", columns, "] ~2 ");
        ExpectFastOnCpu(
            CheckGraph(Cat("graph g(x: f32[", ta ? "70,20" : "20,70", "]) -> (y) { w = const f32[",
                           t ? columns : 70, ",", t ? 70 : columns, "] ~1 ", bias, "p = Gemm(x, w",
                           c.empty() ? "" : ", c", ")", attributes, " y = Relu(p) }")));
      }
    }
}

/// Sums of integer products that 32 bits just hold, and some that they do not: every operand is as
/// large as it can be.
TEST(Product, IntegerSumsBeyond32Bits) {
  constexpr std::string_view kForms[] = {
      "a = DequantizeLinear(x, s) b = DequantizeLinear(w, s) y = MatMul(a, b)",
      "a = DequantizeLinear(x, s) b = DequantizeLinear(w, s) p = MatMul(a, b) "
      "y = QuantizeLinear(p, t) {output_dtype=2}",
      "a = DequantizeLinear(x, s) b = DequantizeLinear(w, s) y = Gemm(a, b)",
      "y = QLinearMatMul(x, s, z, w, s, o, t, z)",
      "y = com.microsoft::QGemm(x, s, z, w, s, o, _, t, z)",
      "f = const i64[4] {1, -1, 1, 1} i = Reshape(x, f) h = const i64[4] {3, -1, 1, 1} "
      "v = Transpose(w) u = Reshape(v, h) y = QLinearConv(i, s, z, u, s, o, t, z)"};
  for (int64_t depth : {65000, 70000})
    for (std::string_view form : kForms) {
      auto g = ParseGraph(
          Cat("graph g(x: u8[1,", depth, "], w: i8[", depth,
              ",3]) -> (y) { s = const f32[] {0.5} z = const u8[] {0} o = const i8[] {0} "
              "t = const f32[] {4000000} ",
              form, " }"),
          SuiteOps());
      ASSERT_TRUE(g.ok()) << g.status().message();
      Tensor x(DType::kU8, {1, depth}), w(DType::kI8, {depth, 3});
      for (int64_t i = 0; i < depth; ++i) x.Set(i, 255);
      for (int64_t i = 0; i < depth * 3; ++i) w.Set(i, 127);
      GraphEditor(*g).SetConstant(g->FindValue("w"), w);
      const auto want = Evaluate(*g, std::vector<Datum>{x});
      ASSERT_TRUE(want.ok()) << want.status().message();
      for (const int level : DifferentLevels()) {
        auto program = BackendUnderTest().Compile(*g, {.level = level});
        ASSERT_TRUE(program.ok()) << program.status().message();
        if (level > 0) ExpectFastOnCpu((*program)->steps());  // at 0 each operator stays whole
        const auto got = RunOnce(**program, std::vector<Datum>{x});
        ASSERT_TRUE(got.ok()) << got.status().message();
        // The bound of a sum in f32 of as many terms (Higham, Accuracy and Stability, 4.2); a sum
        // that wraps is off by more than half.
        ExpectClose((*got)[0], (*want)[0], static_cast<double>(depth) * 0x1p-24,
                    Cat("depth ", depth, ", level ", level, ", ", form));
      }
    }
}

/// Codes of 255 by weights of 255: from 33,026 of them a sum of 32 bits would wrap.
TEST(Product, LongSumsOfAQuantizedLstm) {
  constexpr int64_t kDepth = 40000;
  auto g = ParseGraph(Cat("graph g(x: f32[1,1,", kDepth, "], w: u8[1,", kDepth,
                          ",4]) -> (y) { r = const u8[1,1,4] {1, 2, 3, 4} s = const f32[1] {1e-7} "
                          "z = const u8[1] {0} a, b, y = com.microsoft::DynamicQuantizeLSTM(x, w, "
                          "r, _, _, _, _, _, s, z, s, z) {hidden_size=1} }"),
                      SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  Tensor x(DType::kF32, {1, 1, kDepth}), w(DType::kU8, {1, kDepth, 4});
  for (int64_t i = 0; i < kDepth; ++i) x.Set(i, 1);
  for (int64_t i = 0; i < kDepth * 4; ++i) w.Set(i, 255);
  GraphEditor(*g).SetConstant(g->FindValue("w"), w);
  const auto want = Evaluate(*g, std::vector<Datum>{x});
  ASSERT_TRUE(want.ok()) << want.status().message();
  EXPECT_GT((*want)[0].tensor().At(0), 0.1);
  for (int level : {0, 1}) {
    const auto program = BackendUnderTest().Compile(*g, {.level = level});
    ASSERT_TRUE(program.ok()) << program.status().message();
    ExpectFast((*program)->steps());
    const auto got = RunOnce(**program, std::vector<Datum>{x});
    ASSERT_TRUE(got.ok()) << got.status().message();
    ExpectClose((*got)[0], (*want)[0], 1e-3, Cat("level ", level));
  }
}

TEST(Product, Epilogues) {
  for (int64_t depth : {40, 900})
    for (int64_t columns : {32, 77})
      for (std::string_view after :
           {"y = Add(p, b)", "a = Add(p, b) y = Gelu(a)", "a = Add(p, b) y = Relu(a)",
            "a = Add(p, b) r = Add(a, z) y = Sigmoid(r)", "r = Add(z, p) y = Identity(r)",
            "r = Relu(p) y = Add(z, r)", "r = Sigmoid(p) y = Add(r, z)", "y = Add(p, p)"})
        ExpectFast(CheckGraph(
            Cat("graph g(x: f32[2,15,", depth, "], z: f32[2,15,", columns,
                "]) -> (y) { k = const f32[] {0.05} t = Mul(x, k) w = const f32[", depth, ",",
                columns, "] ~1 b = const f32[", columns, "] ~2 p = MatMul(t, w) ", after, " }"),
            3));
}

/// Strassen's bound against the exact value, relative to the largest.
constexpr double kStrassen = 2e-5;

/// Extents from which quarters are multiplied, that fill or miss halves, panels and runs; up to 159
/// rows sums of weights are made while multiplying, from 160 on they may be kept.
TEST(Product, Quarters) {
  for (int64_t rows : {96, 97, 131, 159, 160, 230, 451})
    for (auto [depth, columns] : {std::array<int64_t, 2>{256, 256}, {257, 321}, {770, 300}})
      ExpectFast(CheckGraph(Cat("graph g(x: f32[", rows, ",", depth, "]) -> (y) { w = const f32[",
                                depth, ",", columns, "] ~1 y = MatMul(x, w) }"),
                            static_cast<uint64_t>(rows), kStrassen));
  ExpectFast(CheckGraph(
      "graph g(x: f32[3,40,1601]) -> (y) { w = const f32[1601,260] ~1 y = MatMul(x, w) }", 3,
      kStrassen));
  ExpectFast(CheckGraph(
      "graph g(x: f32[100,300]) -> (y) { w = const f32[600,300] ~1 c = const f32[600] ~2 "
      "y = Gemm(x, w, c) {transB=1, alpha=-2.0, beta=0.25} }",
      3, kStrassen));
}

TEST(Product, QuartersWithWhatFollows) {
  for (int64_t columns : {256, 301})
    for (std::string_view after :
         {"y = Add(p, b)", "a = Add(p, b) y = Gelu(a)", "a = Add(p, b) y = Relu(a)",
          "a = Add(p, b) r = Add(a, z) y = Sigmoid(r)", "a = Add(p, z) y = Relu(a)",
          "y = Add(z, p)"})
      ExpectFast(CheckGraph(
          Cat("graph g(x: f32[101,1600], z: f32[101,", columns,
              "]) -> (y) { k = const f32[] {0.05} t = Mul(x, k) w = const f32[1600,", columns,
              "] ~1 b = const f32[", columns, "] ~2 p = MatMul(t, w) ", after, " }"),
          3, kStrassen));
}

TEST(Product, SameBitsForAnyNumberOfThreads) {
  for (int64_t rows : {16, 90, 130, 300})
    CheckSameBits(Cat("graph g(x: f32[", rows,
                      ",1000]) -> (y) { w = const f32[1000,300] ~1 y = MatMul(x, w) }"));
  for (const auto& [batch, rows, depth, columns] :
       {std::array{12, 128, 64, 128}, {12, 128, 128, 64}, {3, 64, 2048, 64}, {1, 64, 2048, 64}})
    CheckSameBits(Cat("graph g(a: f32[", batch, ",", rows, ",", depth, "], b: f32[", batch, ",",
                      depth, ",", columns, "]) -> (y) { y = MatMul(a, b) }"));
}

}  // namespace
}  // namespace infer
