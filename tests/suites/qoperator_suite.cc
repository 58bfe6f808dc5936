/// Operators on codes as backends may regroup them: every element equal to the operator's
/// reference, and no step left to it.
#include "tests/suites/code_text.h"

namespace infer {
namespace {

/// "NAMEs = const f32[] {scale} NAMEz = const u8[] {zero} "
std::string Params(std::string_view name, double scale, std::string_view type, int zero) {
  return Cat(name, "s = const f32[] {", FormatDouble(scale), "} ", name, "z = const ", type, "[] {",
             zero, "} ");
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
      CheckExact(text, {Full(TypeOf(c.x_type), x, 5)});
    }
}

/// Unsigned weights around a zero point that they keep to 8 bits with, and around ones that they do
/// not: then they are two halves of 8 bits, or by groups whole numbers in f32.
TEST(QOperators, WeightsWithAZeroPoint) {
  for (const int zero : {128, 3, 117, 255})
    for (const int group : {1, 4})
      CheckExact(Cat("graph g(x: u8[1,4,5,5]) -> (y) { ", Params("x", 0.05, "u8", 7),
                     "w = ", Const("u8", {8, 4 / group, 3, 3}, 7), Params(" w", 0.01, "u8", zero),
                     Params("y", 1.37, "u8", 100),
                     "y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz) {pads=[1,1,1,1], group=", group,
                     "} }"),
                 {Full(DType::kU8, {1, 4, 5, 5}, 5)});
  const std::string head = Cat("graph g(x: u8[5,70]) -> (y) { ", Params("x", 0.0531, "u8", 3),
                               Params("y", 1.9, "u8", 7), Params("w", 0.0117, "u8", 117));
  const std::vector<Datum> x{Full(DType::kU8, {5, 70}, 2)};
  CheckExact(Cat(head, "w = ", Const("u8", {70, 37}, 3),
                 " y = QLinearMatMul(x, xs, xz, w, ws, wz, ys, yz) }"),
             x);
  for (const bool turned : {true, false})
    CheckExact(Cat(head, "w = ", Const("u8", turned ? Dims{37, 70} : Dims{70, 37}, 3),
                   " b = const i32[37] ~4 y = com.microsoft::QGemm(x, xs, xz, w, ws, wz, b, ys, ",
                   "yz) {transB=", turned ? 1 : 0, "} }"),
               x);
}

TEST(QOperators, Products) {
  for (std::string_view type : {"u8", "i8"})
    for (const int64_t rows : {1, 5, 40})
      for (const bool per_channel : {true, false}) {
        const std::vector<Datum> x{Full(TypeOf(type), {rows, 70}, 2)};
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
                   {Full(TypeOf(type), dims, 1), Full(TypeOf(type), dims, 2)});
  for (std::string_view type : {"u8", "i8"}) {
    const std::vector<Datum> x{Full(TypeOf(type), dims, 1)};
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

/// Operands that are repeated: gates of channels, scalars, rows, both at once; constants; behind a
/// convolution, whose images lie with their channels last.
TEST(QOperators, Broadcasting) {
  struct Case {
    Dims a, b;
  };
  const Case cases[] = {{{2, 16, 7, 9}, {2, 16, 1, 1}},
                        {{2, 16, 1, 1}, {2, 16, 7, 9}},
                        {{1, 300, 5, 4}, {300, 1, 1}},
                        {{2, 16, 7, 9}, {1}},
                        {{2, 16, 7, 9}, {}},
                        {{2, 16, 7, 9}, {9}},
                        {{2, 16, 7, 9}, {2, 1, 7, 9}},
                        {{2, 16, 7, 9}, {16, 7, 1}},
                        {{2, 16, 7, 9}, {1, 16, 7, 9}},
                        {{5, 1, 40}, {1, 6, 1}},
                        {{6, 1}, {1, 70}},
                        {{70}, {1, 70}},
                        {{3, 1000}, {1000}},
                        {{2, 3, 4, 5, 6}, {3, 1, 1, 6}}};
  for (std::string_view op : {"QLinearAdd", "QLinearMul"})
    for (std::string_view type : {"u8", "i8"})
      for (const Case& c : cases) {
        const std::string params = Cat(Params("a", op == "QLinearAdd" ? 0.25 : 0.0313, type, 3),
                                       Params("b", op == "QLinearAdd" ? 0.5 : 0.0171, type, 12),
                                       Params("y", 0.5, type, 7));
        const std::string call = Cat("y = com.microsoft::", op, "(a, as, az, b, bs, bz, ys, yz) }");
        const Tensor a = Full(TypeOf(type), c.a, 1), b = Full(TypeOf(type), c.b, 2);
        CheckExact(Cat("graph g(a: ", type, ToString(c.a), ", b: ", type, ToString(c.b),
                       ") -> (y) { ", params, call),
                   {a, b});
        CheckExact(Cat("graph g(a: ", type, ToString(c.a), ") -> (y) { ", params,
                       "b = ", Const(type, c.b, 2), " ", call),
                   {a});
      }
  CheckSameBits(
      "graph g(a: u8[3,33,41,37], b: u8[3,33,1,1]) -> (y) { s = const f32[] {0.02} z = const u8[] "
      "{3} y = com.microsoft::QLinearMul(a, s, z, b, s, z, s, z) }");
}

/// Factors beyond f32: 0 times infinity is no number, whose code is the zero point.
TEST(QOperators, TinyScalesOfResults) {
  const Dims dims{2, 8, 3, 4};
  for (std::string_view type : {"u8", "i8"}) {
    const std::vector<Datum> x{Full(TypeOf(type), dims, 1), Full(TypeOf(type), dims, 2)};
    for (std::string_view ys : {"1e-45", "1e-39"}) {
      const std::string params =
          Cat(Params("x", 2, type, 3), "ys = const f32[] {", ys, "} yz = const ", type, "[] {5} ");
      const std::string head = Cat("graph g(x: ", type, ToString(dims), ") -> (y) { ", params);
      const std::string two = Cat("graph g(x: ", type, ToString(dims), ", b: ", type,
                                  ToString(dims), ") -> (y) { ", params);
      for (std::string_view op : {"QLinearAdd", "QLinearMul"})
        CheckGraph(Cat(two, "y = com.microsoft::", op, "(x, xs, xz, b, xs, xz, ys, yz) }"), x, 0);
      for (std::string_view op : {"QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool"})
        CheckExact(Cat(head, "y = com.microsoft::", op, "(x, xs, xz, ys, yz) }"), {x[0]});
      CheckExact(Cat(head, "w = ", Const(type, {8, 8, 1, 1}, 3),
                     " y = QLinearConv(x, xs, xz, w, xs, xz, ys, yz) }"),
                 {x[0]});
      CheckExact(Cat(head, "w = ", Const(type, {4, 5}, 3),
                     " y = QLinearMatMul(x, xs, xz, w, xs, xz, ys, yz) }"),
                 {x[0]});
    }
  }
}

/// Squeeze and excitation as ONNX Runtime writes it.
TEST(QOperators, Gates) {
  for (std::string_view type : {"u8", "i8"}) {
    const Dims x{2, 24, 9, 7}, w{24, 24, 1, 1};
    CheckExact(Cat("graph g(x: ", type, ToString(x), ") -> (y) { ", Params("x", 0.0531, type, 3),
                   Params("c", 0.119, type, 5), Params("m", 0.031, type, 1),
                   Params("g", 0.0039, type, 0), "w = ", Const("i8", w, 7),
                   Params(" w", 0.0031, "i8", 0), "c = QLinearConv(x, xs, xz, w, ws, wz, cs, cz) ",
                   "p = com.microsoft::QLinearGlobalAveragePool(c, cs, cz, ms, mz) v = ",
                   Const("i8", w, 8), " e = QLinearConv(p, ms, mz, v, ws, wz, cs, cz) ",
                   "s = com.microsoft::QLinearSigmoid(e, cs, cz, gs, gz) ",
                   "u = com.microsoft::QLinearMul(c, cs, cz, s, gs, gz, cs, cz) u2 = ",
                   Const("i8", w, 9), " y = QLinearConv(u, cs, cz, u2, ws, wz, cs, cz) }"),
               {Full(TypeOf(type), x, 5)});
  }
}

TEST(QOperators, AveragePools) {
  const Dims dims{2, 19, 8, 9};
  for (std::string_view type : {"u8", "i8"})
    for (const double scale : {0.0313, 0.0171})
      for (std::string_view attributes :
           {"kernel_shape=[2,2], strides=[2,2]", "kernel_shape=[3,3], pads=[1,1,1,1]",
            "kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1",
            "kernel_shape=[3,2], strides=[2,2], ceil_mode=1",
            "kernel_shape=[3,3], auto_pad=\"SAME_UPPER\", strides=[2,2]"})
        for (const bool last : {false, true})
          CheckExact(Cat("graph g(x: ", type, ToString(last ? Dims{2, 8, 9, 19} : dims),
                         ") -> (y) { ", Params("x", 0.0313, type, 3), Params("y", scale, type, 7),
                         "y = com.microsoft::QLinearAveragePool(x, xs, xz, ys, yz) {", attributes,
                         ", channels_last=", last ? 1 : 0, "} }"),
                     {Full(TypeOf(type), last ? Dims{2, 8, 9, 19} : dims, 1)});
  CheckExact(Cat("graph g(x: u8[2,19,40]) -> (y) { ", Params("x", 0.0313, "u8", 3),
                 Params("y", 0.03, "u8", 7),
                 "y = com.microsoft::QLinearAveragePool(x, xs, xz, ys, yz) {kernel_shape=[5]} }"),
             {Full(DType::kU8, {2, 19, 40}, 1)});
  CheckExact(
      Cat("graph g(x: u8[2,6,5,19]) -> (y) { ", Params("x", 0.0313, "u8", 3),
          Params("y", 0.03, "u8", 7),
          "y = com.microsoft::QLinearGlobalAveragePool(x, xs, xz, ys, yz) {channels_last=1} }"),
      {Full(DType::kU8, {2, 6, 5, 19}, 1)});
}

TEST(QOperators, Softmax) {
  for (std::string_view type : {"u8", "i8"})
    for (const Dims& dims : {Dims{3, 10}, Dims{2, 3, 40}, Dims{2, 1000}, Dims{2, 5, 3, 4}})
      for (const int axis : {-1, 1})
        for (const int opset : {11, 13})
          CheckExact(
              Cat("graph g(x: ", type, ToString(dims), ") -> (y) { ", Params("x", 0.0731, type, 3),
                  Params("y", 1.0 / 256, type, type == "u8" ? 0 : -128),
                  "y = com.microsoft::QLinearSoftmax(x, xs, xz, ys, yz) {axis=", axis,
                  ", opset=", opset, "} }"),
              {Full(TypeOf(type), dims, 1)});
}

TEST(QOperators, Where) {
  for (std::string_view type : {"u8", "i8"})
    for (const Dims& b : {Dims{2, 3, 40}, Dims{40}, Dims{}})
      CheckExact(Cat("graph g(c: bool[3,40], a: ", type, "[2,3,40], b: ", type, ToString(b),
                     ") -> (y) { ", Params("a", 0.0313, type, 3), Params("b", 0.0171, type, 12),
                     Params("y", 0.03, type, 7),
                     "y = com.microsoft::QLinearWhere(c, a, as, az, b, bs, bz, ys, yz) }"),
                 {[] {
                    Tensor t(DType::kBool, {3, 40});
                    for (int i = 0; i < 120; ++i) t.SetInt(i, i % 3 == 1);
                    return t;
                  }(),
                  Full(TypeOf(type), {2, 3, 40}, 1), Full(TypeOf(type), b, 2)});
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
              {Full(TypeOf(type), x, 5), Full(TypeOf(type), sum, 6)});
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
             {Full(DType::kU8, x, 5)});
}

/// A scale of infinity by codes of 0 is NaN, which becomes the zero point.
TEST(QOperators, MeansOfNanAreTheZeroPoint) {
  for (std::string_view type : {"u8", "i8"})
    for (std::string_view last : {"0", "1"})
      CheckExact(Cat("graph g(x: ", type, "[1,3,4,4]) -> (y) { s = const f32[] {inf} z = const ",
                     type, "[] {0} t = const f32[] {0.5} o = const ", type,
                     "[] {7} y = com.microsoft::QLinearGlobalAveragePool(x, s, z, t, o) ",
                     "{channels_last=", last, "} }"),
                 {Tensor::Zeros(*ParseDType(type), {1, 3, 4, 4})});
}

}  // namespace
}  // namespace infer
