/// DQ -> operator -> Q as backends may group it, against the QDQ graph on the reference kernels:
/// every element within one quantum, and all but isolated ones equal. Full-range operands, so that
/// an integer kernel that saturates is far off.
#include "tests/suites/int8_codes.h"

namespace infer {
namespace {

/// "const i8[4,3] {1, -2, ...}"; with 7 bits as --reduce-range makes weights.
std::string Const(DType dtype, const Dims& dims, uint64_t seed, bool seven_bits = false) {
  const Tensor t = Full(dtype, dims, seed);
  std::vector<std::string> values;
  for (int64_t i = 0; i < t.num_elements(); ++i)
    values.push_back(Cat(seven_bits ? t.IntAt(i) / 2 : t.IntAt(i)));
  return Cat("const ", Name(dtype), ToString(dims), " {", Join(values, ", "), "}");
}

/// The activation of c, if any, to r, then `q`; without `q` the result is y.
std::string Tail(std::string_view activation, const std::string& q) {
  if (q.empty()) return Cat("y = ", activation.empty() ? "Identity(c)" : activation);
  return activation.empty() ? q : Cat("r = ", activation, " ", q);
}

struct ConvCase {
  std::string_view x_type;
  int x_zero;
  std::string_view y_type;
  int y_zero;
  std::string_view activation;  ///< of c, to r
  bool per_channel;
  int64_t channels, filters, group;
};

TEST(Int8, Convolution) {
  const ConvCase cases[] = {
      {"u8", 0, "u8", 0, "", true, 16, 32, 1},
      {"u8", 131, "u8", 117, "", true, 16, 32, 1},
      {"i8", 0, "i8", 0, "", true, 16, 32, 1},
      {"i8", -7, "i8", 5, "", false, 3, 17, 1},
      {"u8", 3, "u8", 0, "Relu(c)", true, 8, 8, 1},
      {"u8", 3, "u8", 9, "HardSwish(c)", true, 8, 24, 1},
      {"u8", 0, "u8", 0, "Relu(c)", true, 32, 32, 32},
      {"u8", 128, "u8", 128, "", true, 24, 24, 24},
      {"u8", 0, "u8", 2, "LeakyRelu(c) {alpha=0.1}", false, 12, 6, 3},
  };
  for (const ConvCase& c : cases) {
    const int64_t per_group = c.channels / c.group;
    const double sum = std::sqrt(static_cast<double>(per_group * 9)) * 74 * 74;
    std::vector<std::string> scales;
    for (int64_t i = 0; i < c.filters; ++i)
      scales.push_back(FormatDouble(0.01 * (1 + static_cast<double>(i % 5) * 0.3)));
    const std::string w_scale = c.per_channel
                                    ? Cat("const f32[", c.filters, "] {", Join(scales, ", "), "}")
                                    : std::string("const f32[] {0.01}");
    for (bool quantized : {true, false})
      CheckInt8(Cat("graph g(q: ", c.x_type, "[2,", c.channels, ",7,6]) -> (y) { ",
                    Dq("x", "q", 0.05, c.x_type, c.x_zero),
                    "wq = ", Const(DType::kI8, {c.filters, per_group, 3, 3}, 7), " ws = ", w_scale,
                    " w = DequantizeLinear(wq, ws) {axis=0} b = const f32[", c.filters,
                    "] ~3 c = Conv(x, w, b) {pads=[1,1,1,1], group=", c.group, "} ",
                    Tail(c.activation, quantized ? Q("y", c.activation.empty() ? "c" : "r",
                                                     0.0005 * sum / 60, c.y_type, c.y_zero)
                                                 : std::string()),
                    "}"),
                {Full(c.x_type == "u8" ? DType::kU8 : DType::kI8, {2, c.channels, 7, 6}, 5)});
  }
}

/// Windows of one to three axes: strides, dilations, uneven paddings, groups with odd numbers of
/// channels, more filters than a group has channels, activations that keep to bounds.
TEST(Int8, ConvolutionGeometry) {
  struct Case {
    Dims x, w;
    std::string_view attributes, activation;
  };
  const Case cases[] = {
      {{2, 5, 23}, {7, 5, 4}, "strides=[3], pads=[2,1]", ""},
      {{1, 6, 31}, {6, 1, 5}, "dilations=[3], group=6", "Relu(c)"},
      {{2, 9, 8, 11}, {6, 3, 3, 2}, "strides=[2,1], pads=[1,0,0,2], group=3", ""},
      {{1, 4, 9, 10}, {33, 4, 3, 3}, "dilations=[2,3], pads=[2,3,2,3]", "LeakyRelu(c) {alpha=0.2}"},
      {{1, 10, 13, 7}, {20, 1, 3, 3}, "group=10, pads=[1,1,1,1]", ""},
      {{1, 35, 6, 9}, {35, 1, 5, 5}, "group=35, strides=[1,2], pads=[2,2,2,2]", ""},
      {{1, 3, 4, 5, 6}, {18, 3, 2, 3, 2}, "strides=[1,2,1], pads=[1,0,1,0,1,0]", "Abs(c)"},
      {{3, 65, 5, 5}, {16, 65, 1, 1}, "strides=[2,2]", ""},
      {{2, 6, 5, 9, 8}, {6, 1, 3, 3, 2}, "group=6, dilations=[2,1,3], pads=[1,0,0,2,1,1]", ""},
      {{2, 5, 12, 11}, {15, 1, 3, 3}, "group=5, strides=[2,1]", "Relu(c)"},
      {{1, 4, 30}, {8, 1, 1}, "group=4, strides=[2]", ""},
  };
  for (const Case& c : cases)
    for (std::string_view type : {"u8", "i8"})
      for (bool quantized : {true, false})
        CheckInt8(
            Cat("graph g(q: ", type, ToString(c.x), ") -> (y) { ", Dq("x", "q", 0.05, type, 9),
                "wq = ", Const(DType::kI8, c.w, 7), " ", Dq("w", "wq", 0.01, "i8", 0),
                "b = const f32[", c.w[0], "] ~3 c = Conv(x, w, b) {", c.attributes, "} ",
                Tail(c.activation, quantized
                                       ? Q("y", c.activation.empty() ? "c" : "r", 0.7, type, 4)
                                       : std::string()),
                "}"),
            {Full(*ParseDType(type), c.x, 5)});
}

/// The result of a convolution is quantized, dequantized and added to another integer tensor: the
/// addition may join the step, and rounds as the graph does.
TEST(Int8, ConvolutionWithResidual) {
  struct Case {
    std::string_view type, other;
    int zero, other_zero, between_zero;
    double other_scale, between_scale;
    std::string_view after;  ///< of a, to r
  };
  const Case cases[] = {
      {"u8", "u8", 0, 0, 0, 0.031, 0.047, "Relu(a)"},
      {"u8", "u8", 121, 7, 90, 0.031, 0.047, "Relu(a)"},
      {"u8", "u8", 121, 130, 90, 0.02, 0.08, "Identity(a)"},
      {"i8", "i8", 0, 3, -11, 0.031, 0.047, "Relu(a)"},
      {"u8", "i8", 4, 3, 11, 0.031, 0.047, "Relu(a)"},
      // Sums of these scales fall on halves of the result's.
      {"u8", "u8", 5, 3, 120, 0.03, 0.03, "Relu(a)"},
      {"u8", "u8", 5, 3, 120, 0.045, 0.09, "Identity(a)"},
      // And of these on whole quanta, so that the addition does join the step.
      {"u8", "u8", 128, 100, 120, 0.06, 0.06, "Relu(a)"},
      {"u8", "u8", 128, 100, 120, 0.06, 0.06, "Identity(a)"},
      {"u8", "u8", 0, 0, 120, 0.06, 0.06, "Relu(a)"},
      {"i8", "i8", 3, -5, -11, 0.0006, 0.06, "Relu(a)"},
  };
  const auto check = [](const Case& c, int64_t window, std::string_view sum, int64_t channels,
                        bool bias) {
    const bool relu = c.after == "Relu(a)";
    CheckInt8(
        Cat("graph g(q: ", c.type, "[2,16,7,6], p: ", c.other, "[2,", channels, ",7,6]) -> (y) { ",
            Dq("x", "q", 0.05, c.type, c.zero), Dq("z", "p", c.other_scale, c.other, c.other_zero),
            "wq = ", Const(DType::kI8, {channels, 16, window, window}, 7),
            // Without a bias the sums of a rounder scale would fall on halves.
            " ws = const f32[] {", bias ? "0.001" : "0.00113", "} w = DequantizeLinear(wq, ws) ",
            bias ? Cat("b = const f32[", channels, "] ~3 c = Conv(x, w, b)") : "c = Conv(x, w)",
            " {pads=", window == 1 ? "[0,0,0,0]" : "[1,1,1,1]", "} ",
            Q("cq", "c", c.between_scale, c.type, c.between_zero),
            Dq("d", "cq", c.between_scale, c.type, c.between_zero), "a = ", sum, " ",
            relu ? "r = Relu(a) " : "", Q("y", relu ? "r" : "a", 0.06, c.type, 40), " }"),
        {Full(*ParseDType(c.type), {2, 16, 7, 6}, 5),
         Full(*ParseDType(c.other), {2, channels, 7, 6}, 6)});
  };
  for (const Case& c : cases)
    for (int64_t window : {1, 3}) {
      for (std::string_view sum : {"Add(d, z)", "Add(z, d)"}) check(c, window, sum, 32, true);
      for (int64_t channels : {16, 32, 48}) check(c, window, "Add(d, z)", channels, false);
    }
}

/// Two convolutions that are added, and one whose sum is also read elsewhere.
TEST(Int8, ResidualOfTwoConvolutions) {
  const std::string w = Const(DType::kI8, {16, 16, 1, 1}, 7);
  CheckInt8(Cat("graph g(q: u8[1,16,9,9]) -> (y, v) { ", Dq("x", "q", 0.05, "u8", 12), "wq = ", w,
                " ws = const f32[] {0.001} w = DequantizeLinear(wq, ws) c = Conv(x, w) ",
                Q("cq", "c", 0.05, "u8", 128), Dq("d", "cq", 0.05, "u8", 128), "e = Conv(x, w) ",
                Q("eq", "e", 0.04, "u8", 120), Dq("f", "eq", 0.04, "u8", 120), "a = Add(d, f) ",
                Q("y", "a", 0.07, "u8", 100), "g = Conv(x, w) ", Q("gq", "g", 0.05, "u8", 128),
                Dq("h", "gq", 0.05, "u8", 128), Dq("k", "y", 0.07, "u8", 100), "i = Add(k, h) ",
                "r = Relu(i) ", Q("v", "r", 0.08, "u8", 0), " }"),
            {Full(DType::kU8, {1, 16, 9, 9}, 5)});
}

TEST(Int8, ConvolutionWithQuantizedBias) {
  CheckInt8(Cat("graph g(q: u8[1,8,5,5]) -> (y) { ", Dq("x", "q", 0.02, "u8", 128),
                "wq = ", Const(DType::kI8, {4, 8, 1, 1}, 3),
                " ws = const f32[4] {0.01, 0.02, 0.005, 0.01} wz = const i8[4] {0, 0, 0, 0} "
                "w = DequantizeLinear(wq, ws, wz) {axis=0} "
                "bq = const i32[4] {1000, -2000, 300, 0} bs = const f32[4] {0.0002, 0.0004, "
                "0.0001, 0.0002} b = DequantizeLinear(bq, bs) {axis=0} c = Conv(x, w, b) ",
                Q("y", "c", 0.05, "u8", 128), "}"),
            {Full(DType::kU8, {1, 8, 5, 5}, 2)});
}

TEST(Int8, MatrixProducts) {
  for (std::string_view type : {"u8", "i8"})
    for (int64_t k : {4, 17, 64}) {
      const DType t = type == "u8" ? DType::kU8 : DType::kI8;
      CheckInt8(Cat("graph g(q: ", type, "[3,5,", k, "]) -> (y) { ", Dq("x", "q", 0.02, type, 3),
                    "wq = ", Const(DType::kI8, {k, 9}, 3),
                    " ws = const f32[9] {1, 2, 3, 1, 2, 3, 1, 2, 3} "
                    "w = DequantizeLinear(wq, ws) {axis=1} c = MatMul(x, w) ",
                    Q("y", "c", 30.0, type, 7), "}"),
                {Full(t, {3, 5, k}, 2)});
      CheckInt8(Cat("graph g(q: ", type, "[5,", k, "]) -> (y) { ", Dq("x", "q", 0.02, type, 3),
                    "wq = ", Const(DType::kI8, {9, k}, 3), " ", Dq("w", "wq", 0.03, "i8", 0),
                    "b = const f32[9] ~3 y = Gemm(x, w, b) {transB=1} }"),
                {Full(t, {5, k}, 2)});
    }
}

/// Enough channels for kernels that take only those; scales are powers of two, so that every result
/// is the graph's.
TEST(Int8, PointwiseConvolutions) {
  struct Case {
    std::string_view type;
    int zero;
    int64_t channels, filters, step;
    std::string_view activation;  ///< of c, to r
    bool adds;
  };
  const Case cases[] = {{"u8", 0, 192, 64, 1, "Relu(c)", false},
                        {"u8", 5, 201, 40, 1, "", false},
                        {"i8", -7, 256, 33, 1, "", false},
                        {"u8", 9, 194, 32, 2, "", false},
                        {"u8", 3, 200, 48, 1, "Clip(c, lo, hi)", false},
                        {"u8", 0, 192, 64, 1, "", true},
                        {"u8", 131, 204, 40, 1, "", true},
                        {"i8", 5, 196, 72, 1, "", true},
                        {"i8", 5, 193, 7, 2, "Relu(c)", true}};
  for (const Case& c : cases) {
    const DType t = *ParseDType(c.type);
    const int64_t h = 17, w = 11, y_h = (h - 1) / c.step + 1, y_w = (w - 1) / c.step + 1;
    const std::string r = c.activation.empty() ? "c" : "r";
    CheckInt8(
        Cat("graph g(q: ", c.type, "[2,", c.channels, ",", h, ",", w, "], p: ", c.type, "[2,",
            c.filters, ",", y_h, ",", y_w, "]) -> (y) { ", Dq("x", "q", 0.5, c.type, c.zero),
            "wq = ", Const(DType::kI8, {c.filters, c.channels, 1, 1}, 7), " ",
            Dq("w", "wq", 0.125, "i8", 0), "lo = const f32[] {-3000} hi = const f32[] {9000} ",
            "b = const f32[", c.filters, "] {",
            Join(std::vector<std::string>(static_cast<size_t>(c.filters), "37.5"), ", "),
            "} c = Conv(x, w, b) {strides=[", c.step, ",", c.step, "]} ",
            c.activation.empty() ? std::string() : Cat("r = ", c.activation, " "),
            c.adds
                ? Cat(Q("cq", r, 256, c.type, 7), Dq("d", "cq", 256, c.type, 7),
                      Dq("z", "p", 128, c.type, 3), "a = Add(d, z) ", Q("y", "a", 512, c.type, 9))
                : Q("y", r, 256, c.type, 7),
            "}"),
        {Full(t, {2, c.channels, h, w}, 5), Full(t, {2, c.filters, y_h, y_w}, 6)}, None);
  }
}

/// Scales of 1 and no quantization of the result: what comes out is the 32-bit sum, which must be
/// exact to the last bit, of full-range codes, short and long, with and without padding.
TEST(Int8, SumsAreExact) {
  struct Case {
    Dims x, w;
    std::string_view attributes;
  };
  const Case cases[] = {{{1, 16, 9, 9}, {40, 16, 3, 3}, "pads=[1,1,1,1]"},
                        {{2, 70, 5, 7}, {33, 70, 1, 1}, ""},
                        {{1, 600, 6, 6}, {70, 600, 1, 1}, ""},
                        {{1, 130, 6, 5}, {9, 130, 3, 3}, "pads=[1,1,1,1], strides=[2,1]"},
                        {{1, 24, 9, 8}, {24, 1, 3, 3}, "group=24, pads=[1,1,1,1]"},
                        {{1, 20, 9, 8}, {40, 10, 3, 3}, "group=2"},
                        {{1, 600, 1, 1}, {70, 600, 1, 1}, ""}};
  for (std::string_view type : {"u8", "i8"})
    for (int zero : {0, type == "u8" ? 255 : -128}) {
      const DType t = *ParseDType(type);
      for (const Case& c : cases)
        ExpectExactly(Cat("graph g(q: ", type, ToString(c.x), ") -> (y) { ",
                          Dq("x", "q", 1, type, zero), "wq = ", Const(DType::kI8, c.w, 7), " ",
                          Dq("w", "wq", 1, "i8", 0), "y = Conv(x, w) {", c.attributes, "} }"),
                      {Full(t, c.x, 5)});
      for (int64_t rows : {1, 40})
        ExpectExactly(Cat("graph g(q: ", type, "[", rows, ",300]) -> (y) { ",
                          Dq("x", "q", 1, type, zero), "wq = ", Const(DType::kI8, {300, 75}, 3),
                          " ", Dq("w", "wq", 1, "i8", 0), "y = MatMul(x, w) }"),
                      {Full(t, {rows, 300}, 2)});
    }
}

TEST(Int8, MatrixProductsOfManyRows) {
  for (std::string_view type : {"u8", "i8"})
    for (int64_t rows : {1, 3, 60})
      for (int64_t k : {64, 259}) {
        const DType t = *ParseDType(type);
        CheckInt8(Cat("graph g(q: ", type, "[", rows, ",", k, "]) -> (y, v, u) { ",
                      Dq("x", "q", 0.5, type, 3), "wq = ", Const(DType::kI8, {k, 75}, 3), " ",
                      Dq("w", "wq", 0.125, "i8", 0), "c = MatMul(x, w) ", Q("y", "c", 256, type, 7),
                      "v = MatMul(x, w) e = MatMul(x, w) u = Relu(e) }"),
                  {Full(t, {rows, k}, 2)}, None);
      }
}

TEST(Int8, ElementWise) {
  for (std::string_view op : {"Add", "Mul"})
    for (std::string_view type : {"u8", "i8"})
      for (std::string_view act : {"", "Relu(c)"}) {
        const DType t = type == "u8" ? DType::kU8 : DType::kI8;
        CheckInt8(Cat("graph g(p: ", type, "[3,65], q: ", type, "[3,65]) -> (y) { ",
                      Dq("a", "p", 0.02, type, 3), Dq("b", "q", 0.035, type, 11), "c = ", op,
                      "(a, b) ", Tail(act, Q("y", act.empty() ? "c" : "r", 0.05, type, 20)), "}"),
                  {Full(t, {3, 65}, 2), Full(t, {3, 65}, 3)}, None);
      }
  for (std::string_view op : {"Relu", "Sigmoid", "Tanh", "HardSwish", "Gelu", "Mish", "infer::Silu",
                              "com.microsoft::QuickGelu"})
    CheckInt8(Cat("graph g(q: u8[3,85]) -> (y) { ", Dq("a", "q", 0.03, "u8", 120), "c = ", op,
                  "(a) ", Q("y", "c", 0.01, "i8", -5), "}"),
              {Full(DType::kU8, {3, 85}, 2)});
}

TEST(Int8, PoolingAndViews) {
  for (std::string_view op :
       {"MaxPool(a) {kernel_shape=[2,2], strides=[2,2]}", "GlobalAveragePool(a)", "Flatten(a)"})
    for (std::string_view type : {"u8", "i8"})
      CheckInt8(Cat("graph g(q: ", type, "[2,17,6,6]) -> (y) { ", Dq("a", "q", 0.03, type, 12),
                    "c = ", op, " ", Q("y", "c", 0.03, type, 12), "}"),
                {Full(type == "u8" ? DType::kU8 : DType::kI8, {2, 17, 6, 6}, 2)});
}

TEST(Int8, ConversionsAlone) {
  Random random(4);
  for (std::string_view type : {"u8", "i8"}) {
    CheckInt8(Cat("graph g(x: f32[3,77]) -> (y) { ", Q("y", "x", 0.013, type, 5), "}"),
              {RandomInput(DType::kF32, {3, 77}, random)});
    CheckInt8(Cat("graph g(q: ", type, "[3,77]) -> (y) { ", Dq("y", "q", 0.013, type, 5), "}"),
              {Full(type == "u8" ? DType::kU8 : DType::kI8, {3, 77}, 2)});
  }
}

/// Scales that are powers of two make every f32 step exact and many results a half, and the zero
/// points are odd: what adds them before it rounds, or halves weights for want of bits, is off.
TEST(Int8, HalvesAtOddZeroPoints) {
  for (std::string_view type : {"u8", "i8"}) {
    const DType t = type == "u8" ? DType::kU8 : DType::kI8;
    for (const bool seven_bits : {false, true}) {
      for (int64_t group : {1, 16})
        for (int64_t size : {1, 3})
          CheckInt8(Cat("graph g(q: ", type, "[2,16,7,9]) -> (y) { ", Dq("x", "q", 0.5, type, 3),
                        "wq = ", Const(DType::kI8, {16, 16 / group, size, size}, 7, seven_bits),
                        " ", Dq("w", "wq", 0.125, "i8", 0), "c = Conv(x, w) {group=", group, "} ",
                        Q("y", "c", group == 1 ? 256 : 32, type, 7), "}"),
                    {Full(t, {2, 16, 7, 9}, 5)}, None);
      CheckInt8(Cat("graph g(q: ", type, "[3,5,17]) -> (y) { ", Dq("x", "q", 0.5, type, 3), "wq = ",
                    Const(DType::kI8, {17, 40}, 3, seven_bits), " ", Dq("w", "wq", 0.125, "i8", 0),
                    "c = MatMul(x, w) ", Q("y", "c", 256, type, 7), "}"),
                {Full(t, {3, 5, 17}, 2)}, None);
    }
    for (std::string_view op : {"Add", "Mul"})
      CheckInt8(Cat("graph g(p: ", type, "[3,265], q: ", type, "[3,265]) -> (y) { ",
                    Dq("a", "p", 0.5, type, 3), Dq("b", "q", 0.5, type, 12), "c = ", op, "(a, b) ",
                    Q("y", "c", op == "Add" ? 1 : 16, type, 7), "}"),
                {Full(t, {3, 265}, 2), Full(t, {3, 265}, 3)}, None);
    CheckInt8(Cat("graph g(q: ", type, "[2,64,4,2]) -> (y) { ", Dq("a", "q", 0.5, type, 3),
                  "c = GlobalAveragePool(a) ", Q("y", "c", 0.25, type, 7), "}"),
              {Full(t, {2, 64, 4, 2}, 2)}, None);
  }
}

// Weights lie in tiles of 64 x 64 there: whole ones, and parts of one at either edge.
TEST(Int8, MatMulOfAnAsymmetricOperandOverSeveralTiles) {
  for (const auto& [k, n] : {std::pair<int64_t, int64_t>{128, 64}, {130, 200}, {63, 129}})
    for (const bool transposed : {false, true}) {
      const Dims w = transposed ? Dims{n, k} : Dims{k, n};
      CheckInt8(Cat("graph g(q: u8[20,", k, "]) -> (y) { ", Dq("x", "q", 0.5, "u8", 3),
                    "wq = ", Const(DType::kI8, w, 3, true), " ", Dq("w", "wq", 0.125, "i8", 0),
                    "y = Gemm(x, w) {transB=", transposed ? 1 : 0, "} }"),
                {Full(DType::kU8, {20, k}, 2)}, None);
    }
}

/// conv -> residual -> pool, all quantized: layouts of 8-bit tensors across steps. The last scale
/// divides by no other, so that the means are no halves that level 0 could round either way.
TEST(Int8, ResidualNet) {
  CheckInt8(
      Cat("graph g(q: u8[2,16,8,8]) -> (cq, rq, pq, y) { ", Dq("x", "q", 0.02, "u8", 100),
          "wq = ", Const(DType::kI8, {16, 16, 3, 3}, 7), " ", Dq("w", "wq", 0.001, "i8", 0),
          "c = Conv(x, w) {pads=[1,1,1,1]} ", Q("cq", "c", 0.05, "u8", 128),
          Dq("d", "cq", 0.05, "u8", 128), "s = Add(d, x) r = Relu(s) ", Q("rq", "r", 0.04, "u8", 0),
          Dq("t", "rq", 0.04, "u8", 0), "p = MaxPool(t) {kernel_shape=[2,2], strides=[2,2]} ",
          Q("pq", "p", 0.04, "u8", 0), Dq("u", "pq", 0.04, "u8", 0), "a = GlobalAveragePool(u) ",
          Q("y", "a", 0.0313579, "u8", 0), "}"),
      {Full(DType::kU8, {2, 16, 8, 8}, 5)});
}

}  // namespace
}  // namespace infer
