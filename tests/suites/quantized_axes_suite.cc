/// Quantized weights with a scale per index of the axis that engines do not expect: of the summed
/// axis, of square matrices, where a mistaken axis fits as well; without a zero point; and Relu
/// before integers that go below zero. Each against the reference kernels.
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// "f32[3] {0.01, 0.03, ...}" by powers of 1.7, so that a wrong scale is far off.
std::string Scales(int n) {
  std::vector<std::string> values;
  double v = 0.003;
  for (int i = 0; i < n; ++i, v *= 1.7) values.push_back(FormatDouble(v));
  return Cat("const f32[", n, "] {", Join(values, ", "), "}");
}

std::string Weights(const Dims& dims) {
  Random random(9);
  std::vector<std::string> values;
  for (int64_t i = 0; i < NumElements(dims); ++i)
    values.push_back(Cat(static_cast<int64_t>(random.Below(256)) - 128));
  return Cat("const i8", ToString(dims), " {", Join(values, ", "), "}");
}

struct AxesCase {
  const char* name;
  Dims x, w;
  int axis;
  const char* layer;     ///< t = LAYER(a, v)
  bool zero = true;      ///< with zero points
  bool integer = false;  ///< followed by Relu and a quantization that goes below zero
};

std::string TextOf(const AxesCase& c) {
  const auto n = static_cast<int>(c.w[static_cast<size_t>(c.axis)]);
  std::string zeros = Join(std::vector<std::string>(static_cast<size_t>(n), "0"), ", ");
  return Cat("graph g(x: f32", ToString(c.x),
             ") -> (y) {\n s = const f32[] {0.02}  z = const u8[] {117}\n", " w = ", Weights(c.w),
             "\n r = ", Scales(n), "\n o = const i8[", n, "] {", zeros,
             "}\n q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)\n",
             " v = DequantizeLinear(w, r", c.zero ? ", o" : "", ") {axis=", c.axis,
             "}\n t = ", c.layer, "\n",
             c.integer ? " u = Relu(t)  k = const f32[] {0.5}  p = const i8[] {-3}\n"
                         " i = QuantizeLinear(u, k, p)  y = DequantizeLinear(i, k, p) }"
                       : " y = Identity(t) }");
}

class QuantizedAxes : public testing::TestWithParam<AxesCase> {};

TEST_P(QuantizedAxes, AreRespected) {
  const AxesCase& c = GetParam();
  // With integers at the end one of 128 steps may be rounded the other way.
  CheckGraph(TextOf(c), 3, c.integer ? 1e-2 : 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    All, QuantizedAxes,
    testing::Values(
        AxesCase{"gemm_trans_b_summed_square", {3, 8}, {8, 8}, 1, "Gemm(a, v) {transB=1}"},
        AxesCase{"gemm_trans_b_rows", {3, 8}, {8, 8}, 0, "Gemm(a, v) {transB=1}"},
        AxesCase{"gemm_summed_square", {3, 8}, {8, 8}, 0, "Gemm(a, v)"},
        AxesCase{"gemm_columns", {3, 8}, {8, 8}, 1, "Gemm(a, v)"},
        AxesCase{"matmul_summed_square", {3, 8}, {8, 8}, 0, "MatMul(a, v)"},
        AxesCase{"matmul_summed", {3, 8}, {8, 5}, 0, "MatMul(a, v)"},
        AxesCase{"matmul_columns", {3, 8}, {8, 5}, 1, "MatMul(a, v)"},
        AxesCase{"conv_inputs_square", {1, 4, 6, 6}, {4, 4, 3, 3}, 1, "Conv(a, v)"},
        AxesCase{"conv_outputs", {1, 4, 6, 6}, {4, 4, 3, 3}, 0, "Conv(a, v)"},
        AxesCase{"conv_rows", {1, 4, 6, 6}, {3, 4, 3, 3}, 2, "Conv(a, v)"},
        AxesCase{"gemm_without_zero", {3, 8}, {8, 8}, 0, "Gemm(a, v) {transB=1}", false},
        AxesCase{"matmul_without_zero", {3, 8}, {8, 8}, 0, "MatMul(a, v)", false},
        AxesCase{"conv_relu_below_zero", {1, 4, 6, 6}, {4, 4, 3, 3}, 0, "Conv(a, v)", true, true},
        AxesCase{"conv_inputs_relu_below_zero",
                 {1, 4, 6, 6},
                 {4, 4, 3, 3},
                 1,
                 "Conv(a, v)",
                 true,
                 true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace infer
