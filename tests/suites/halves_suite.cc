/// f16 and bf16 on kernels of f32: every result is rounded to its type, as the reference does. Sums
/// in f32 may fall on the other side of a rounding border: one unit of the last place.
#include "tests/suites/suite.h"

namespace infer {
namespace {

constexpr double kHalfUnit = 1.0 / 1024, kBFloatUnit = 1.0 / 128;

void Check(std::string_view body, std::string_view inputs) {
  for (std::string_view type : {"f16", "bf16"}) {
    auto typed = [&](std::string_view text) {
      std::string out;
      for (size_t i = 0; i < text.size(); ++i)
        if (text[i] == '$')
          out += type;
        else
          out += text[i];
      return out;
    };
    ExpectFastOnCpu(CheckGraph(Cat("graph g(", typed(inputs), ") -> (y) { ", typed(body), " }"), 1,
                               type == "f16" ? kHalfUnit : kBFloatUnit));
  }
}

TEST(Halves, Products) {
  Check("w = const $[4,3,3,3] ~1 b = const $[4] ~2 c = Conv(x, w, b) {pads=[1,1,1,1]} y = Relu(c)",
        "x: $[1,3,7,9]");
  Check("y = MatMul(a, b)", "a: $[2,5,7], b: $[2,7,3]");
  Check("w = const $[7,3] ~1 y = Gemm(a, w)", "a: $[5,7]");
}

TEST(Halves, ElementsAndRows) {
  for (std::string_view op :
       {"Relu(x)", "Sigmoid(x)", "Erf(x)", "Softmax(x)", "Neg(x)", "Add(x, x)"})
    Check(Cat("y = ", op), "x: $[3,17]");
  Check("s = const $[17] ~1 y = LayerNormalization(x, s)", "x: $[3,17]");
  Check("y = MaxPool(x) {kernel_shape=[2,2]}", "x: $[1,3,6,6]");
  Check("y = GlobalAveragePool(x)", "x: $[1,3,6,6]");
  Check("c = Less(a, b) y = Where(c, a, b)", "a: $[3,5], b: $[5]");
}

/// At level 2 a chain is rounded at its end only, so it lies nearer to the exact values than the
/// reference, which rounds every step: half a unit for each of its steps.
TEST(Halves, Chains) {
  const auto check = [](std::string_view body, int steps) {
    ExpectFastOnCpu(CheckGraph(
        Cat("graph g(x: f16[1,16,6,6]) -> (y) { w = const f16[16,16,3,3] ~1 ", body, " }"), 3,
        kHalfUnit / 2 * (steps + 1)));
  };
  check(
      "c = Conv(x, w) {pads=[1,1,1,1]} r = Relu(c) m = MaxPool(r) {kernel_shape=[2,2]} "
      "d = Concat(m, m) {axis=1} t = Transpose(d) {perm=[0,2,3,1]} y = Sigmoid(t)",
      3);
  check("c = Conv(x, w) h = Split(c) {axis=1, num_outputs=1} a = Cast(h) {to=1} y = Neg(a)", 2);
}

/// Values that are read twice, results of the graph, halves beside floats, and moves between.
TEST(Halves, Graphs) {
  Check("a = Mul(x, x) t = Transpose(a) s = Transpose(t) b = Add(s, x) y = Tanh(b)", "x: $[4,6]");
  ExpectFastOnCpu(
      CheckGraph("graph g(x: f16[4,6]) -> (a, y) { a = Abs(x) b = Cast(a) {to=1} c = Exp(b) "
                 "y = Cast(c) {to=10} }",
                 1, kHalfUnit));
}

}  // namespace
}  // namespace infer
