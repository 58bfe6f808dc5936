#include "quant/accuracy/code_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lib/support/strings.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

/// Two quantizers, one after the other; `scale` times x goes into the first one.
std::string Chain(double scale, std::string_view between = "b = Relu(a)") {
  return Cat("graph g(x: f32[6]) -> (y: f32[6]) { k = const f32[] {", FormatDouble(scale),
             "} s = const f32[] {1} z = const u8[] {10} t = const f32[] {0.25} ",
             "m = Mul(x, k) q = QuantizeLinear(m, s, z) a = DequantizeLinear(q, s, z) ", between,
             " r = QuantizeLinear(b, t, z) y = DequantizeLinear(r, t, z) }");
}

Samples OneSample(std::vector<float> values) {
  Samples s;
  s.count = 1;
  s.get = [values](int64_t) -> Result<std::vector<Datum>> {
    Tensor t(DType::kF32, {static_cast<int64_t>(values.size())});
    for (size_t i = 0; i < values.size(); ++i) t.Set(static_cast<int64_t>(i), values[i]);
    return std::vector<Datum>{t};
  };
  return s;
}

CodeCheck Check(std::string_view golden, std::string_view candidate, std::vector<float> x) {
  const Graph g = MustParse(golden), c = MustParse(candidate);
  const auto backend = MakeReferenceBackend();
  auto check = CheckCodes(g, c, *backend, OneSample(std::move(x)));
  EXPECT_TRUE(check.ok()) << check.status().message();
  return check.ok() ? *std::move(check) : CodeCheck{};
}

TEST(CodeCheck, TheSameModel) {
  const CodeCheck c = Check(Chain(1), Chain(1), {0.1f, 1.5f, 2.4f, -3, 17, 400});
  EXPECT_EQ(c.values, 2);
  EXPECT_EQ(c.codes, 12);
  EXPECT_EQ(c.moved, 0);
  EXPECT_EQ(c.shift, 0);
  ASSERT_EQ(c.outputs.outputs.size(), 1u);
  EXPECT_EQ(c.outputs.outputs[0].metrics.max_abs_error, 0);
}

/// 2.5 becomes 2, and a little more 3: one code moves, and nothing behind it does.
TEST(CodeCheck, ANumberBesideABorder) {
  const CodeCheck c = Check(Chain(1), Chain(1 + 1e-6), {0.1f, 2.5f, 2.4f, -3, 7, 20});
  EXPECT_EQ(c.codes, 12);
  EXPECT_EQ(c.moved, 1);
  EXPECT_EQ(c.worst, "q");
  EXPECT_LT(c.shift, 1e-6);
  EXPECT_EQ(c.outputs.outputs[0].metrics.max_abs_error, 0);
}

/// The candidate is wrong by a tenth of a step: codes move that no rounding explains.
TEST(CodeCheck, NumbersThatAreOff) {
  const CodeCheck c = Check(Chain(1), Chain(1.05), {0.1f, 2.45f, 2.4f, -3, 7, 20});
  EXPECT_GT(c.moved, 0);
  EXPECT_GT(c.shift, 2e-3);
}

/// Faults behind the first quantizer are seen as if all before were right.
TEST(CodeCheck, AnErrorBehindAQuantizer) {
  const CodeCheck c = Check(Chain(1), Chain(1, "b = Abs(a)"), {0.1f, 2, 3, -3, 7, 20});
  EXPECT_EQ(c.moved, 1);
  EXPECT_EQ(c.worst, "r");
  EXPECT_GT(c.shift, 0.1);
}

TEST(CodeCheck, AnErrorBehindTheLastQuantizer) {
  std::string wrong = Chain(1);
  wrong.replace(wrong.rfind("y = "), std::string::npos,
                "w = DequantizeLinear(r, t, z) y = Neg(w) }");
  const CodeCheck c = Check(Chain(1), wrong, {0.1f, 2, 3, -3, 7, 20});
  EXPECT_EQ(c.moved, 0);
  EXPECT_GT(c.outputs.outputs[0].error_ratio(), 1);
}

/// A dynamic quantizer's scale and zero point go with its codes.
TEST(CodeCheck, DynamicQuantizers) {
  const auto text = [](double k) {
    return Cat(
        "graph g(x: f32[6]) -> (y: f32[6]) { k = const f32[] {", FormatDouble(k),
        "} m = Mul(x, k) q, s, z = DynamicQuantizeLinear(m) y = DequantizeLinear(q, s, z) }");
  };
  const std::vector<float> x{0, 1.5f, 2.5f, -3, 100, 255};
  EXPECT_EQ(Check(text(1), text(1), x).shift, 0);
  EXPECT_LT(Check(text(1), text(1 + 1e-6), x).shift, 1e-5);
  EXPECT_GT(Check(text(1), text(1.01), x).shift, 1e-3);
}

/// Codes that are computed on codes have no number that could be rounded.
TEST(CodeCheck, CodesOfCodes) {
  const auto text = [](double scale) {
    return Cat(
        "graph g(x: u8[2,3]) -> (y: u8[2,3]) { s = const f32[] {0.5} z = const u8[] {3} t = "
        "const f32[] {",
        scale, "} y = com.microsoft::QLinearAdd(x, s, z, x, t, z, s, z) }");
  };
  const Graph g = MustParse(text(0.5)), c = MustParse(text(0.6));
  const auto backend = MakeReferenceBackend();
  Samples samples;
  samples.count = 1;
  samples.get = [](int64_t) -> Result<std::vector<Datum>> {
    Tensor t(DType::kU8, {2, 3});
    for (int i = 0; i < 6; ++i) t.SetInt(i, 10 + 7 * i);
    return std::vector<Datum>{t};
  };
  const auto check = CheckCodes(g, c, *backend, samples);
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_TRUE(std::isinf(check->shift));
  EXPECT_TRUE(check->outputs.outputs.empty());  // the output is judged as codes
}

TEST(CodeCheck, FloatModelsAreNotRun) {
  const std::string text = "graph g(x: f32[6]) -> (y: f32[6]) { y = Relu(x) }";
  EXPECT_EQ(Check(text, text, {1, 2, 3, 4, 5, 6}).values, 0);
}

}  // namespace
}  // namespace infer
