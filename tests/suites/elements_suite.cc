/// Operators on elements of any type against the reference, with broadcasting, at the boundaries of
/// vectors, and with the values where types differ: limits, zeros, NaN, infinities, subnormals.
#include <limits>

#include "tests/suites/suite.h"

namespace infer {
namespace {

constexpr std::string_view kIntegers[] = {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"};
constexpr double kNumbers[] = {0,    1,      -1,    2,      -3,    7,     100,    127,   -128,
                               255,  256,    -300,  32767,  65535, 70000, -70000, 2e9,   -2e9,
                               4e9,  1e12,   -1e12, 9e18,   -9e18, 1.5,   -0.5,   0.499, 2.5,
                               1e-7, 6.1e-5, 3e-8,  -1e-40, 65504, 65519, 65520,  1e30,  -3.4e38};

/// `n` elements of that type which cycle through the list from `first` on.
Tensor Numbers(std::string_view type, const Dims& dims, size_t first) {
  Tensor t(*ParseDType(type), dims);
  const bool is_float = IsFloat(t.dtype());
  std::vector<double> values(std::begin(kNumbers), std::end(kNumbers));
  if (is_float)
    for (double v : {static_cast<double>(INFINITY), -static_cast<double>(INFINITY), std::nan("")})
      values.push_back(v);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.Set(i, values[(first + static_cast<size_t>(i) * 5) % values.size()]);
  return t;
}

void CheckBinary(std::string_view op, std::string_view type, std::string_view attrs = "") {
  const std::pair<Dims, Dims> shapes[] = {{{37}, {37}},  {{5, 7}, {7}},           {{65}, {}},
                                          {{}, {33}},    {{3, 1}, {2, 3, 4}},     {{1}, {1}},
                                          {{0, 3}, {3}}, {{2, 3, 17}, {2, 1, 17}}};
  size_t first = 0;
  for (const auto& [a, b] : shapes) {
    auto text = [](const Dims& d) {
      std::vector<std::string> parts;
      for (int64_t v : d) parts.push_back(Cat(v));
      return Join(parts, ",");
    };
    CheckGraph(Cat("graph g(a: ", type, "[", text(a), "], b: ", type, "[", text(b),
                   "]) -> (y) { y = ", op, "(a, b)", attrs, " }"),
               {Numbers(type, a, first), Numbers(type, b, first + 11)}, 0);
    first += 3;
  }
}

TEST(Elements, IntegerArithmetic) {
  for (std::string_view type : kIntegers)
    for (std::string_view op : {"Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"})
      CheckBinary(op, type);
  for (std::string_view type : {"i32", "u8", "f32", "f64"}) CheckBinary("Mod", type, " {fmod=1}");
}

TEST(Elements, DoubleArithmetic) {
  for (std::string_view op : {"Add", "Sub", "Mul", "Div", "Max", "Min"}) CheckBinary(op, "f64");
}

TEST(Elements, Comparisons) {
  for (std::string_view op : {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}) {
    for (std::string_view type : kIntegers) CheckBinary(op, type);
    for (std::string_view type : {"f32", "f64"}) CheckBinary(op, type);
  }
  CheckBinary("Equal", "bool");
}

TEST(Elements, LogicAndBits) {
  for (std::string_view op : {"And", "Or", "Xor"}) CheckBinary(op, "bool");
  for (std::string_view type : kIntegers)
    for (std::string_view op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"}) CheckBinary(op, type);
  for (std::string_view type : {"u8", "u16", "u32", "u64"})
    for (std::string_view direction : {"LEFT", "RIGHT"})
      CheckBinary("BitShift", type, Cat(" {direction=\"", direction, "\"}"));
}

TEST(Elements, Unary) {
  auto check = [](std::string_view op, std::string_view type, std::string_view attrs = "") {
    for (int64_t n : {0, 1, 31, 67})
      CheckGraph(Cat("graph g(x: ", type, "[", n, "]) -> (y) { y = ", op, "(x)", attrs, " }"),
                 {Numbers(type, {n}, static_cast<size_t>(n))}, 0);
  };
  for (std::string_view type : {"i8", "i16", "i32", "i64", "f32", "f64"})
    for (std::string_view op : {"Neg", "Abs", "Sign", "Relu"}) check(op, type);
  for (std::string_view type : {"u8", "u16", "u32", "u64"})
    for (std::string_view op : {"Abs", "Sign", "BitwiseNot"}) check(op, type);
  check("Not", "bool");
  for (std::string_view type : {"f32", "f64"}) {
    check("IsNaN", type);
    check("IsInf", type);
    check("IsInf", type, " {detect_negative=0}");
    check("IsInf", type, " {detect_positive=0}");
  }
}

TEST(Elements, Cast) {
  const std::string_view types[] = {"i8",  "u8",  "i16", "u16", "i32",  "u32", "i64",
                                    "u64", "f16", "f32", "f64", "bf16", "bool"};
  for (std::string_view from : types)
    for (std::string_view to : types) {
      const auto code = static_cast<int>(*ParseDType(to));
      for (int64_t n : {1, 150})
        CheckGraph(Cat("graph g(x: ", from, "[", n, "]) -> (y) { y = Cast(x) {to=", code, "} }"),
                   {Numbers(from, {n}, 1)}, 0);
    }
}

/// Every f16 there is, and floats around every border between two.
TEST(Elements, HalfExhaustively) {
  Tensor halves(DType::kF16, {65536});
  for (int64_t i = 0; i < 65536; ++i)
    reinterpret_cast<uint16_t*>(halves.mutable_raw())[i] = static_cast<uint16_t>(i);
  CheckGraph("graph g(x: f16[65536]) -> (y) { y = Cast(x) {to=1} }", {halves}, 0);
  Tensor floats(DType::kF32, {65536 * 3});
  auto bits = reinterpret_cast<uint32_t*>(floats.mutable_raw());
  for (uint32_t i = 0; i < 65536; ++i)
    for (uint32_t k = 0; k < 3; ++k) bits[i * 3 + k] = (i << 16) + 0xfff + k + (i % 5) * 0x1000;
  CheckGraph("graph g(x: f32[196608]) -> (y) { y = Cast(x) {to=10} }", {floats}, 0);
  CheckGraph("graph g(x: f32[196608]) -> (y) { y = Cast(x) {to=16} }", {floats}, 0);
}

TEST(Elements, Where) {
  const std::string_view shapes[][3] = {
      {"67", "67", "67"},   {"5,1", "5,9", "9"}, {"1,9", "5,1", "5,9"}, {"", "5,9", ""},
      {"2,3,1", "3,4", ""}, {"33", "", ""},      {"1", "1", "1"}};
  for (std::string_view type : {"f32", "i64", "u8", "f16", "bool", "f64"})
    for (const auto& s : shapes)
      CheckGraph(Cat("graph g(c: bool[", s[0], "], a: ", type, "[", s[1], "], b: ", type, "[", s[2],
                     "]) -> (y) { y = Where(c, a, b) }"),
                 7, 0);
}

/// Bounds that are constants, come with the run, are left out or lie the wrong way round.
TEST(Elements, ClipOfIntegers) {
  for (std::string_view type : kIntegers)
    for (int64_t n : {1, 37, 40000}) {
      const std::string head = Cat("graph g(x: ", type, "[", n, "]");
      const Tensor x = Numbers(type, {n}, 2);
      const auto fast = [&](const std::string& text, const std::vector<Datum>& inputs) {
        const auto steps = CheckGraph(text, inputs, 0);
        ExpectFastOnCpu(steps);
      };
      const std::string low = Cat("l = const ", type, "[] {3} "),
                        high = Cat("h = const ", type, "[] {100} ");
      fast(Cat(head, ") -> (y) { ", low, high, "y = Clip(x, l, h) }"), {x});
      fast(Cat(head, ") -> (y) { ", low, high, "y = Clip(x, h, l) }"), {x});
      fast(Cat(head, ") -> (y) { ", low, "z = Abs(x) y = Clip(z, l) }"), {x});
      fast(Cat(head, ") -> (y) { ", high, "y = Clip(x, _, h) }"), {x});
      fast(Cat(head, ", l: ", type, "[], h: ", type, "[]) -> (y) { y = Clip(x, l, h) }"),
           {x, Numbers(type, {}, 1), Numbers(type, {}, 3)});
    }
}

/// Quotients that are whole, nearly so, large, and none: all of a grid of floats.
TEST(Elements, RemaindersOfFloats) {
  std::vector<float> values;
  for (float v : {0.0f, 1.0f, 3.0f, 0.1f, 7.5f, 1e-3f, 1e6f, 4194303.0f, 4194304.0f, 1e20f, 1e-40f,
                  3e38f, 1.17549435e-38f, INFINITY, NAN})
    for (float near : {v, std::nextafter(v, 0.0f), std::nextafter(v, INFINITY), 3 * v})
      for (float sign : {1.0f, -1.0f}) values.push_back(sign * near);
  const auto n = static_cast<int64_t>(values.size());
  const auto column = Tensor::Of<float>({n, 1}, std::span<const float>(values)),
             row = Tensor::Of<float>({n}, std::span<const float>(values));
  ExpectFast(CheckGraph(
      Cat("graph g(a: f32[", n, ",1], b: f32[", n, "]) -> (y) { y = Mod(a, b) {fmod=1} }"),
      {column, row}, 0));
  ExpectFast(CheckGraph(
      Cat("graph g(a: f32[", n, ",1], b: f32[", n, "]) -> (y) { y = Mod(b, a) {fmod=1} }"),
      {column, row}, 0));
}

/// Floats around the limits of the narrow types, and the lengths where vectors end.
TEST(Elements, CastsToNarrowIntegers) {
  std::vector<float> values;
  for (float v :
       {0.0f, 1.0f, 127.0f, 128.0f, 255.0f, 256.0f, 32767.0f, 32768.0f, 65535.0f, 65536.0f,
        2147483648.0f, 4294967296.0f, 9223372036854775808.0f, 3e38f, INFINITY, NAN})
    for (float near : {v, std::nextafter(v, 0.0f), std::nextafter(v, INFINITY), v + 0.5f})
      for (float sign : {1.0f, -1.0f}) values.push_back(sign * near);
  const auto n = static_cast<int64_t>(values.size());
  for (std::string_view type : kIntegers)
    for (int64_t length : {n, n - 5, n - 17})
      CheckGraph(Cat("graph g(x: f32[", length,
                     "]) -> (y) { y = Cast(x) {to=", static_cast<int>(*ParseDType(type)), "} }"),
                 {Tensor::Of<float>(
                     {length}, std::span<const float>(values).first(static_cast<size_t>(length)))},
                 0);
}

}  // namespace
}  // namespace infer
