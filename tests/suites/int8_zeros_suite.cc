/// Products of codes whose weights are mostly zero, which kernels may skip.
#include "tests/suites/int8_codes.h"

namespace infer {
namespace {

/// As Const, all but every fourth block of 16 outputs by 4 inputs of one tap zero. Dims [outputs,
/// inputs, window...], or [inputs, outputs].
std::string SparseConst(const Dims& dims, uint64_t seed, bool inputs_first) {
  const Tensor t = Full(DType::kI8, dims, seed);
  const int64_t outputs = dims[inputs_first ? 1 : 0], inputs = dims[inputs_first ? 0 : 1];
  const int64_t taps = t.num_elements() / (outputs * inputs);
  std::vector<std::string> values;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const int64_t outer = i / taps, tap = i % taps, last = inputs_first ? outputs : inputs;
    const int64_t n = inputs_first ? outer % last : outer / last;
    const int64_t c = inputs_first ? outer / last : outer % last;
    values.push_back((n / 16 + c / 4 + tap) % 4 == 0 ? Cat(t.IntAt(i)) : std::string("0"));
  }
  return Cat("const i8", ToString(dims), " {", Join(values, ", "), "}");
}

/// Three of four blocks of weights are zero, so that kernels that skip them may run. Scales are
/// powers of two, so that every result is the graph's.
TEST(Int8, ConvolutionsOfManyZeros) {
  struct Case {
    Dims x, w;
    std::string_view attributes, type;
    int zero;
    std::string_view activation;  ///< of c, to r
    bool adds;
  };
  const Case cases[] = {
      {{2, 64, 9, 7}, {48, 64, 1, 1}, "", "u8", 0, "Relu(c)", false},
      {{1, 66, 8, 8}, {40, 66, 1, 1}, "", "u8", 131, "", true},
      {{1, 64, 13, 11}, {64, 64, 1, 1}, "strides=[2,2]", "i8", -7, "Relu(c)", true},
      {{2, 32, 12, 9}, {32, 32, 3, 3}, "pads=[1,1,1,1]", "u8", 117, "Clip(c, lo, hi)", false},
      {{1, 32, 11, 14}, {48, 32, 3, 3}, "pads=[1,0,2,1], strides=[2,1]", "i8", 5, "", true},
      {{1, 32, 9, 9}, {32, 32, 3, 3}, "pads=[2,2,2,2], dilations=[2,2]", "u8", 255, "", false},
      {{2, 32, 33}, {32, 32, 5}, "pads=[2,2], strides=[3]", "u8", 9, "Relu(c)", false},
      {{1, 32, 4, 5, 6}, {32, 32, 2, 3, 2}, "pads=[1,1,0,0,1,1]", "u8", 3, "", false},
      {{1, 64, 1, 1}, {80, 64, 1, 1}, "", "u8", 3, "", false},
  };
  for (const Case& c : cases) {
    const DType t = *ParseDType(c.type);
    const std::string r = c.activation.empty() ? "c" : "r";
    const std::string conv = Cat("Conv(x, w, b) {", c.attributes, "}");
    const Graph shapes =
        *ParseGraph(Cat("graph g(x: f32", ToString(c.x), ") -> (c) { w = const f32", ToString(c.w),
                        " ~1 b = const f32[", c.w[0], "] ~2 c = ", conv, " }"),
                    SuiteOps());
    const Dims y = shapes.outputs()[0]->shape().static_dims();
    CheckInt8(Cat("graph g(q: ", c.type, ToString(c.x), ", p: ", c.type, ToString(y),
                  ") -> (y, v) { ", Dq("x", "q", 0.5, c.type, c.zero),
                  "wq = ", SparseConst(c.w, 7, false), " ", Dq("w", "wq", 0.125, "i8", 0),
                  "lo = const f32[] {-3000} hi = const f32[] {9000} ", "b = const f32[", c.w[0],
                  "] {", Join(std::vector<std::string>(static_cast<size_t>(c.w[0]), "37.5"), ", "),
                  "} c = ", conv, " ",
                  c.activation.empty() ? std::string() : Cat("r = ", c.activation, " "),
                  c.adds ? Cat(Q("cq", r, 256, c.type, 7), Dq("d", "cq", 256, c.type, 7),
                               Dq("z", "p", 128, c.type, 3), "a = Add(d, z) ",
                               Q("y", "a", 512, c.type, 9))
                         : Q("y", r, 256, c.type, 7),
                  "v = ", conv, "}"),
              {Full(t, c.x, 5), Full(t, y, 6)}, None);
  }
}

TEST(Int8, MatrixProductsOfManyZeros) {
  for (std::string_view type : {"u8", "i8"})
    for (int64_t rows : {1, 3, 30, 85})
      for (int64_t k : {64, 130}) {
        const DType t = *ParseDType(type);
        CheckInt8(Cat("graph g(q: ", type, "[", rows, ",", k, "]) -> (y, v, u) { ",
                      Dq("x", "q", 0.5, type, 3), "wq = ", SparseConst({k, 75}, 3, true), " ",
                      Dq("w", "wq", 0.125, "i8", 0), "tq = ", SparseConst({64, k}, 4, false), " ",
                      Dq("t", "tq", 0.125, "i8", 0), "b = const f32[64] ~3 c = MatMul(x, w) ",
                      Q("y", "c", 256, type, 7), "v = Gemm(x, t, b) {transB=1} ",
                      "e = MatMul(x, w) u = Relu(e) }"),
                  {Full(t, {rows, k}, 2)}, None);
      }
}

/// Products whose zero point and scale only the run knows.
TEST(Int8, IntegerOperatorsOfManyZeros) {
  Random random(3);
  const std::string head = "q, s, z = DynamicQuantizeLinear(x) ";
  const std::string real = " f = Cast(i) {to=1} m = Mul(f, s) y = Add(m, b) }";
  for (int64_t rows : {1, 3, 70})
    for (int64_t k : {64, 130}) {
      const std::string product = Cat("graph g(x: f32[", rows, ",", k, "]) -> (y) { ", head,
                                      "w = ", SparseConst({k, 75}, 3, true),
                                      " b = const f32[75] ~5 i = MatMulInteger(q, w, z) ");
      const std::vector<Datum> x{RandomInput(DType::kF32, {rows, k}, random)};
      ExpectExactly(Cat(product, "y = Identity(i) }"), x);
      ExpectExactly(Cat(product, real), x);
    }
  struct Case {
    Dims x, w;
    std::string_view attributes;
  };
  for (const auto& [x, w, attributes] :
       {Case{{2, 32, 9, 8}, {48, 32, 3, 3}, "pads=[1,1,1,1]"},
        Case{{1, 32, 12, 9}, {32, 32, 3, 3}, "strides=[2,1], dilations=[1,2], pads=[1,2,0,1]"},
        Case{{1, 64, 40}, {64, 64, 3}, "pads=[2,2]"}}) {
    const std::string conv =
        Cat("w = ", SparseConst(w, 7, false), " b = const f32[", w[0],
            w.size() == 4 ? ",1,1" : ",1", "] ~5 i = ConvInteger(q, w, z) {", attributes, "} ");
    const std::vector<Datum> in{RandomInput(DType::kF32, x, random)};
    ExpectExactly(Cat("graph g(x: f32", ToString(x), ") -> (y) { ", head, conv, real), in);
    ExpectExactly(
        Cat("graph g(q: i8", ToString(x), ", z: i8[]) -> (y) { ", conv, "y = Identity(i) }"),
        {Full(DType::kI8, x, 5), Tensor::Scalar<int8_t>(-37)});
  }
}

}  // namespace
}  // namespace infer
