/// Integer products and convolutions of activations that are quantized in the run, as backends may
/// regroup them: every element equal to the operator's reference, and no step left to it.
#include "tests/suites/code_text.h"

namespace infer {
namespace {

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
        {Full(DType::kI8, c.x, 5), Tensor::Scalar<int8_t>(-37)});
  }
}

/// Weights minus their zero point take 9 bits: the default of ONNX Runtime's dynamic quantizer.
TEST(QOperators, DynamicByWeightsOfNineBits) {
  const bool has_kernel = BackendUnderTest().name() == "cpu";
  const auto check = [&](const std::string& text, const std::vector<Datum>& x) {
    const auto steps = CheckGraph(text, x, 0);
    if (has_kernel) ExpectFast(steps);
  };
  Random random(7);
  const std::pair<std::string_view, std::string_view> weights[] = {
      {"u8", "{0}"}, {"u8", "{77}"}, {"u8", "{255}"}, {"i8", "{100}"}, {"i8", "{-128}"}};
  for (const auto& [type, zero] : weights) {
    const std::string head =
        Cat("wz = const ", type, "[] ", zero, " q, s, z = DynamicQuantizeLinear(x) ");
    for (const int64_t k : {64, 70})
      for (const int64_t rows : {1, 5}) {
        const std::string product =
            Cat("graph g(x: f32[", rows, ",", k, "]) -> (y) { ", head,
                "w = ", Const(type, {k, 37}, 3), " i = MatMulInteger(q, w, z, wz) ");
        const std::vector<Datum> x{RandomInput(DType::kF32, {rows, k}, random)};
        check(Cat(product, "y = Identity(i) }"), x);
        check(Cat(product, "f = Cast(i) {to=1} m = Mul(f, s) b = const f32[37] ~5 y = Add(m, b) }"),
              x);
      }
    struct Case {
      Dims x, w;
      std::string_view attributes;
    };
    for (const auto& [x, filters, attributes] :
         {Case{{2, 5, 9, 8}, {18, 5, 3, 3}, "pads=[1,1,1,1]"},
          Case{{2, 5, 9, 8}, {18, 5, 3, 3}, "strides=[2,1], dilations=[1,2]"},
          Case{{2, 12, 7, 7}, {6, 4, 3, 3}, "group=3, pads=[1,0,1,1]"},
          Case{{2, 20, 7, 6}, {20, 1, 3, 3}, "group=20, strides=[2,2], pads=[1,1,1,1]"},
          Case{{1, 6, 9}, {4, 6, 3}, "dilations=[2]"}}) {
      const std::string conv =
          Cat("w = ", Const(type, filters, 3), " i = ConvInteger(q, w, z, wz) {", attributes, "} ");
      const std::vector<Datum> in{RandomInput(DType::kF32, x, random)};
      check(Cat("graph g(x: f32", ToString(x), ") -> (y) { ", head, conv, "y = Identity(i) }"), in);
      check(Cat("graph g(x: f32", ToString(x), ") -> (y) { ", head, conv,
                "f = Cast(i) {to=1} y = Mul(f, s) }"),
            in);
      check(Cat("graph g(q: i8", ToString(x), ", z: i8[]) -> (y) { wz = const ", type, "[] ", zero,
                " ", conv, "y = Identity(i) }"),
            {Full(DType::kI8, x, 5), Tensor::Scalar<int8_t>(-37)});
    }
  }
  // A zero point for each column.
  std::vector<int> zeros(37);
  for (int i = 0; i < 37; ++i) zeros[static_cast<size_t>(i)] = i * 7 % 256;
  check(Cat("graph g(x: f32[5,70]) -> (y) { wz = const u8[37] {", infer::Join(zeros, ", "),
            "} q, s, z = DynamicQuantizeLinear(x) w = ", Const("u8", {70, 37}, 3),
            " i = MatMulInteger(q, w, z, wz) y = Identity(i) }"),
        {RandomInput(DType::kF32, {5, 70}, random)});
  CheckSameBits(
      "graph g(x: f32[90,72]) -> (y) { w = const u8[72,130] ~1 wz = const u8[] {9} "
      "q, s, z = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, z, wz) f = Cast(i) {to=1} "
      "y = Mul(f, s) }");
}

}  // namespace
}  // namespace infer
