/// Operators on codes as backends may regroup them: every element equal to the operator's
/// reference, and no step left to it.
#include <algorithm>

#include "tests/suites/suite.h"

namespace infer {
namespace {

Tensor RandomCodes(DType dtype, const Dims& dims, uint64_t seed) {
  Random random(seed);
  Tensor t(dtype, dims);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.SetInt(i, IntegerMin(dtype) + random.Below(256));
  return t;
}

DType TypeOf(std::string_view name) { return name == "u8" ? DType::kU8 : DType::kI8; }

std::string Const(std::string_view type, const Dims& dims, uint64_t seed) {
  const Tensor t = RandomCodes(TypeOf(type), dims, seed);
  std::vector<std::string> values;
  for (int64_t i = 0; i < t.num_elements(); ++i) values.push_back(Cat(t.IntAt(i)));
  return Cat("const ", type, ToString(dims), " {", Join(values, ", "), "}");
}

/// "NAMEs = const f32[] {scale} NAMEz = const u8[] {zero} "
std::string Params(std::string_view name, double scale, std::string_view type, int zero) {
  return Cat(name, "s = const f32[] {", FormatDouble(scale), "} ", name, "z = const ", type, "[] {",
             zero, "} ");
}

/// Scales of `n` outputs.
std::string Scales(std::string_view name, int64_t n, double scale) {
  std::vector<std::string> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(FormatDouble(scale * (1 + static_cast<double>(i % 5) * 0.3)));
  return Cat(name, " = const f32[", n, "] {", Join(values, ", "), "} ");
}

/// Equal bits at all levels, and on the cpu no reference kernel but for `but`.
void CheckExact(const std::string& text, const std::vector<Datum>& inputs,
                std::string_view but = "none") {
  SCOPED_TRACE(text.substr(0, 400));
  for (const StepInfo& step : CheckGraph(text, inputs, 0)) {
    if (BackendUnderTest().name() != "cpu" || step.op == but) continue;
    EXPECT_NE(step.kernel, "reference") << step.op << ": " << Join(step.refusals, "; ");
  }
}

TEST(QOperators, QLinearConv) {
  struct Case {
    std::string_view x_type;
    int x_zero;
    std::string_view y_type;
    int y_zero;
    int64_t channels, filters, group, size;
    std::string attributes, clip;
  };
  const Case cases[] = {
      {"u8", 0, "u8", 0, 16, 32, 1, 3, "pads=[1,1,1,1]", ""},
      {"u8", 131, "u8", 117, 16, 33, 1, 3, "pads=[1,0,2,1], strides=[2,1]", ""},
      {"i8", -7, "i8", 5, 3, 17, 1, 3, "dilations=[2,1]", ""},
      {"u8", 3, "u8", 0, 24, 24, 24, 3, "pads=[1,1,1,1]", ""},
      {"u8", 3, "u8", 9, 200, 40, 1, 1, "strides=[2,2]", ""},
      {"u8", 3, "u8", 9, 12, 6, 3, 1, "", "lo = const u8[] {9} k = Clip(c, lo)"},
      {"u8", 3, "u8", 0, 8, 8, 1, 3, "", "lo = const u8[] {0} k = Clip(c, lo)"},
      {"u8", 3, "u8", 9, 8, 8, 1, 3, "",
       "lo = const u8[] {9} hi = const u8[] {181} k = Clip(c, lo, hi)"},
      {"i8", 3, "i8", -11, 200, 24, 1, 1, "",
       "lo = const i8[] {-20} hi = const i8[] {81} k = Clip(c, lo, hi)"},
  };
  for (const Case& c : cases)
    for (const bool per_channel : {true, false}) {
      const int64_t per_group = c.channels / c.group;
      const double sum = std::sqrt(static_cast<double>(per_group * c.size * c.size)) * 74 * 74;
      const Dims x{2, c.channels, 7, 6}, w{c.filters, per_group, c.size, c.size};
      std::string text = Cat(
          "graph g(x: ", c.x_type, ToString(x), ") -> (y) { ",
          Params("x", 0.0531, c.x_type, c.x_zero), "w = ", Const("i8", w, 7),
          " wz = const i8[] {0} ",
          per_channel ? Scales("ws", c.filters, 0.0117) : std::string("ws = const f32[] {0.0117} "),
          Params("y", 0.0531 * 0.0117 * sum / 60, c.y_type, c.y_zero));
      if (per_channel) text += Cat("b = const i32[", c.filters, "] ~3 ");
      text += Cat("c = QLinearConv(x, xs, xz, w, ws, wz, ys, yz", per_channel ? ", b" : "", ") {",
                  c.attributes, c.attributes.empty() ? "" : ", ", "group=", c.group, "} ",
                  c.clip.empty() ? "y = Identity(c)" : Cat(c.clip, " y = Identity(k)"), " }");
      CheckExact(text, {RandomCodes(TypeOf(c.x_type), x, 5)});
    }
}

/// Unsigned weights around a zero point that they keep to 8 bits with, and around one that they do
/// not.
TEST(QOperators, WeightsWithAZeroPoint) {
  for (const int zero : {128, 3})
    CheckExact(Cat("graph g(x: u8[1,4,5,5]) -> (y) { ", Params("x", 0.05, "u8", 7),
                   "w = ", Const("u8", {6, 4, 3, 3}, 7), Params(" w", 0.01, "u8", zero),
                   Params("y", 1.37, "u8", 100), "y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz) }"),
               {RandomCodes(DType::kU8, {1, 4, 5, 5}, 5)}, zero == 128 ? "none" : "QLinearConv");
}

TEST(QOperators, Products) {
  for (std::string_view type : {"u8", "i8"})
    for (const int64_t rows : {1, 5, 40})
      for (const bool per_channel : {true, false}) {
        const std::vector<Datum> x{RandomCodes(TypeOf(type), {rows, 70}, 2)};
        const std::string head =
            Cat("graph g(x: ", type, "[", rows, ",70]) -> (y) { ", Params("x", 0.0531, type, 3),
                Params("y", 1.9, type, 7),
                per_channel ? Scales("ws", 37, 0.0117) : std::string("ws = const f32[] {0.0117} "),
                "wz = const i8[] {0} ");
        CheckExact(Cat(head, "w = ", Const("i8", {70, 37}, 3),
                       " y = QLinearMatMul(x, xs, xz, w, ws, wz, ys, yz) }"),
                   x);
        for (const bool turned : {true, false}) {
          const std::string w =
              Cat("w = ", Const("i8", turned ? Dims{37, 70} : Dims{70, 37}, 3), " ");
          const std::string attributes = Cat(") {transB=", turned ? 1 : 0, "} }");
          CheckExact(Cat(head, w, "b = const i32[37] ~4 y = com.microsoft::QGemm(x, xs, xz, w, ",
                         "ws, wz, b, ys, yz", attributes),
                     x);
          CheckExact(Cat(head, w, "b = const i32[37] ~4 y = com.microsoft::QGemm(x, xs, xz, w, ",
                         "ws, wz, b", attributes),
                     x);
        }
        CheckExact(Cat(head, "w = ", Const("i8", {70, 37}, 3),
                       " i = MatMulInteger(x, w, xz) f = Cast(i) {to=1} y = Mul(f, ws) }"),
                   x);
      }
}

TEST(QOperators, ElementWise) {
  const Dims dims{2, 16, 7, 9};
  for (std::string_view type : {"u8", "i8"})
    for (std::string_view op : {"QLinearAdd", "QLinearMul"})
      for (const int zero : {0, 7})
        CheckExact(Cat("graph g(a: ", type, ToString(dims), ", b: ", type, ToString(dims),
                       ") -> (y) { ", Params("a", op == "QLinearAdd" ? 0.25 : 0.0313, type, 3),
                       Params("b", op == "QLinearAdd" ? 0.5 : 0.0171, type, 12),
                       Params("y", 0.5, type, zero), "y = com.microsoft::", op,
                       "(a, as, az, b, bs, bz, ys, yz) }"),
                   {RandomCodes(TypeOf(type), dims, 1), RandomCodes(TypeOf(type), dims, 2)});
  for (std::string_view type : {"u8", "i8"}) {
    const std::vector<Datum> x{RandomCodes(TypeOf(type), dims, 1)};
    const std::string head = Cat("graph g(x: ", type, ToString(dims), ") -> (y) { ",
                                 Params("x", 0.0313, type, 3), Params("y", 0.00617, type, 5));
    for (std::string_view op : {"QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool"})
      CheckExact(Cat(head, "y = com.microsoft::", op, "(x, xs, xz, ys, yz) }"), x);
    CheckExact(
        Cat(head, "y = com.microsoft::QLinearConcat(ys, yz, x, xs, xz, x, ys, yz) ", "{axis=1} }"),
        x);
    CheckExact(Cat(head, "y = MaxPool(x) {kernel_shape=[3,2], strides=[2,2], pads=[1,0,1,1]} }"),
               x);
  }
}

/// The second convolution takes the addition, or the addition stays by itself: the same bits.
TEST(QOperators, Residual) {
  for (std::string_view type : {"u8", "i8"})
    for (const int64_t channels : {16, 192})
      for (const double scale : {0.0313, 0.0491})
        for (const int zero : {0, 11}) {
          if (channels > 16 && (scale > 0.04) != (zero == 0)) continue;
          const Dims x{1, channels, 6, 6}, w{32, channels, 1, 1}, sum{1, 32, 6, 6};
          CheckExact(
              Cat("graph g(x: ", type, ToString(x), ", r: ", type, ToString(sum), ") -> (y) { ",
                  Params("x", 0.0531, type, 3), Params("c", 0.0819, type, zero),
                  Params("r", scale, type, 9), Params("y", 0.0917, type, zero),
                  "w = ", Const("i8", w, 7), Params(" w", 0.00031, "i8", 0),
                  "c = QLinearConv(x, xs, xz, w, ws, wz, cs, cz) ",
                  "y = com.microsoft::QLinearAdd(c, cs, cz, r, rs, rz, ys, yz) }"),
              {RandomCodes(TypeOf(type), x, 5), RandomCodes(TypeOf(type), sum, 6)});
        }
}

/// Both operands of the addition are convolutions, one of which takes it.
TEST(QOperators, TwoBranches) {
  const Dims x{1, 16, 6, 6};
  CheckExact(Cat("graph g(x: u8", ToString(x), ") -> (y) { ", Params("x", 0.0531, "u8", 3),
                 Params("c", 0.0819, "u8", 0), Params("y", 0.0917, "u8", 0),
                 "w = ", Const("i8", {16, 16, 1, 1}, 7), Params(" w", 0.0031, "i8", 0),
                 "c = QLinearConv(x, xs, xz, w, ws, wz, cs, cz) v = ",
                 Const("i8", {16, 16, 1, 1}, 8), " d = QLinearConv(x, xs, xz, v, ws, wz, cs, cz) ",
                 "y = com.microsoft::QLinearAdd(c, cs, cz, d, cs, cz, ys, yz) }"),
             {RandomCodes(DType::kU8, x, 5)});
}

/// Zero point and scale as they come: what dynamic quantization makes of products.
TEST(QOperators, DynamicProducts) {
  for (const int64_t k : {64, 70})
    for (const int64_t n : {32, 37})
      for (const int64_t rows : {1, 5, 40}) {
        const std::string head =
            Cat("graph g(x: f32[2,", rows, ",", k, "]) -> (y) { w = ", Const("i8", {k, n}, 3),
                " q, s, z = DynamicQuantizeLinear(x) ", "i = MatMulInteger(q, w, z) ");
        const std::string real = Cat(head, "f = Cast(i) {to=1} ", Scales("ws", n, 0.0117),
                                     "t = Mul(s, ws) m = Mul(f, t) ");
        Random random(7);
        const std::vector<Datum> x{RandomInput(DType::kF32, {2, rows, k}, random)};
        CheckExact(Cat(head, "y = Identity(i) }"), x);
        CheckExact(Cat(head, "f = Cast(i) {to=1} y = Mul(f, s) }"), x);
        CheckExact(Cat(real, "y = Identity(m) }"), x);
        CheckExact(Cat(real, "b = const f32[", n, "] ~5 y = Add(b, m) }"), x);
        CheckExact(Cat(real, "b = const f32[", n, "] ~5 a = Add(m, b) y = Relu(a) }"), x);
      }
  CheckSameBits(
      "graph g(x: f32[90,72]) -> (y) { w = const i8[72,130] ~1 q, s, z = DynamicQuantizeLinear(x) "
      "i = MatMulInteger(q, w, z) f = Cast(i) {to=1} y = Mul(f, s) }");
}

TEST(QOperators, DynamicConvolutions) {
  struct Case {
    Dims x, w;
    std::string_view attributes;
  };
  const Case cases[] = {
      {{2, 16, 7, 6}, {33, 16, 3, 3}, "pads=[1,1,1,1]"},
      {{1, 3, 9, 10}, {17, 3, 3, 2}, "pads=[1,0,2,1], strides=[2,1], dilations=[1,2]"},
      {{2, 32, 5, 5}, {24, 32, 1, 1}, "group=1"},
      {{1, 6, 5, 5}, {8, 6, 1, 1}, "strides=[2,2]"},
      {{1, 24, 7, 7}, {24, 1, 3, 3}, "group=24, pads=[1,1,1,1]"},
      {{1, 12, 7, 7}, {6, 4, 3, 3}, "group=3"},
      {{2, 5, 23}, {7, 5, 4}, "strides=[3], pads=[2,1]"},
      {{1, 3, 4, 5, 6}, {18, 3, 2, 3, 2}, "strides=[1,2,1], pads=[1,0,1,0,1,0]"},
  };
  for (const Case& c : cases) {
    const std::string ones = c.w.size() == 3 ? ",1" : c.w.size() == 4 ? ",1,1" : ",1,1,1";
    const std::string conv =
        Cat("w = ", Const("i8", c.w, 3), " i = ConvInteger(q, w, z) {", c.attributes, "} ");
    const std::string head = Cat("graph g(x: f32", ToString(c.x), ") -> (y) { ",
                                 "q, s, z = DynamicQuantizeLinear(x) ", conv);
    Random random(7);
    const std::vector<Datum> x{RandomInput(DType::kF32, c.x, random)};
    CheckExact(Cat(head, "y = Identity(i) }"), x);
    CheckExact(Cat(head, "f = Cast(i) {to=1} ws = const f32[", c.w[0], ones,
                   "] ~4 t = Mul(s, ws) m = Mul(f, t) b = const f32[", c.w[0], ones,
                   "] ~5 y = Add(m, b) }"),
               x);
    CheckExact(
        Cat("graph g(q: i8", ToString(c.x), ", z: i8[]) -> (y) { ", conv, "y = Identity(i) }"),
        {RandomCodes(DType::kI8, c.x, 5), Tensor::Scalar<int8_t>(-37)});
  }
}

}  // namespace
}  // namespace infer
