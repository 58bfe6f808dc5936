/// DQ -> sum, product or mean of codes -> Q: the bits of the reference kernels, in groups that take
/// bytes.
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// A step of the quantizers below, of the largest number.
constexpr double kOneStep = 1.0 / 40;

Tensor AllCodes(DType dtype, const Dims& dims, uint64_t seed) {
  Random random(seed);
  Tensor t(dtype, dims);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.SetInt(i, IntegerMin(dtype) + random.Below(256));
  return t;
}

std::string Convert(std::string_view op, std::string_view out, std::string_view in, double scale,
                    std::string_view type, int zero) {
  return Cat(out, "s = const f32[] {", FormatDouble(scale), "} ", out, "z = const ", type, "[] {",
             zero, "} ", out, " = ", op, "(", in, ", ", out, "s, ", out, "z) ");
}
std::string ToReals(std::string_view out, std::string_view in, double scale, std::string_view type,
                    int zero) {
  return Convert("DequantizeLinear", out, in, scale, type, zero);
}
std::string ToCodes(std::string_view out, std::string_view in, double scale, std::string_view type,
                    int zero) {
  return Convert("QuantizeLinear", out, in, scale, type, zero);
}

/// No step of this operator is computed in f32.
void ExpectOnBytes(const std::vector<StepInfo>& steps, std::string_view op) {
  if (BackendUnderTest().name() != "cpu") return;
  for (const StepInfo& s : steps) {
    if (s.op == op) {
      EXPECT_NE(s.precision, "f32") << s.kernel << ": " << Join(s.refusals, "; ");
    }
  }
}

TEST(ByteGroups, Broadcasting) {
  struct Case {
    Dims a, b;
  };
  const Case cases[] = {{{2, 24, 9, 7}, {2, 24, 1, 1}},
                        {{24, 1, 1}, {2, 24, 9, 7}},
                        {{3, 65}, {65}},
                        {{3, 65}, {1}},
                        {{5, 1}, {1, 70}},
                        {{2, 5, 40, 30}, {2, 5, 1, 1}},
                        {{3, 300, 2, 3}, {300, 1, 1}}};
  for (std::string_view op : {"Add", "Mul"})
    for (std::string_view type : {"u8", "i8"})
      for (const Case& c : cases) {
        const DType t = *ParseDType(type);
        const auto steps = CheckGraph(
            Cat("graph g(p: ", type, ToString(c.a), ", q: ", type, ToString(c.b), ") -> (y) { ",
                ToReals("a", "p", 0.0201, type, 3), ToReals("b", "q", 0.0353, type, 11), "c = ", op,
                "(a, b) ", ToCodes("y", "c", 0.0507, type, 20), "}"),
            {AllCodes(t, c.a, 2), AllCodes(t, c.b, 3)}, 0);
        ExpectOnBytes(steps, op);
      }
}

/// An operator other than a convolution, quantized, and added to something.
TEST(ByteGroups, AdditionBehind) {
  for (std::string_view made :
       {"m = Mul(a, b)", "m = Sigmoid(a)", "m = MaxPool(a) {kernel_shape=[1,1]}", "m = Relu(a)",
        "m = AveragePool(a) {kernel_shape=[1,1]}", "m = Add(a, b)"})
    for (std::string_view type : {"u8", "i8"}) {
      const DType t = *ParseDType(type);
      CheckGraph(Cat("graph g(p: ", type, "[2,3,4,5], q: ", type, "[2,3,4,5]) -> (y, u) { ",
                     ToReals("a", "p", 0.0201, type, 3), ToReals("b", "q", 0.0353, type, 11), made,
                     " ", ToCodes("k", "m", 0.0201, type, 3), ToReals("d", "k", 0.0201, type, 3),
                     ToReals("e", "q", 0.0353, type, 11), "s = Add(d, e) ",
                     ToCodes("y", "s", 0.0507, type, 20), "u = Neg(b) }"),
                 {AllCodes(t, {2, 3, 4, 5}, 2), AllCodes(t, {2, 3, 4, 5}, 3)}, 0);
    }
}

TEST(ByteGroups, AveragePools) {
  for (std::string_view type : {"u8", "i8"})
    for (std::string_view attributes :
         {"kernel_shape=[2,2], strides=[2,2]", "kernel_shape=[3,3], pads=[1,1,1,1]",
          "kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1",
          "kernel_shape=[3,2], strides=[2,2], ceil_mode=1"}) {
      const DType t = *ParseDType(type);
      const auto steps = CheckGraph(
          Cat("graph g(q: ", type, "[2,17,8,9]) -> (y) { ", ToReals("a", "q", 0.03, type, 12),
              "c = AveragePool(a) {", attributes, "} ", ToCodes("y", "c", 0.0313579, type, 7), "}"),
          {AllCodes(t, {2, 17, 8, 9}, 2)}, 0);
      ExpectOnBytes(steps, "AveragePool");
    }
}

/// Scales as they come, one that makes many exact ties, and images of several extents and ranks.
TEST(ByteGroups, MeansOfImages) {
  for (std::string_view type : {"u8", "i8"})
    for (const Dims& dims :
         {Dims{2, 17, 8, 9}, {1, 300, 7, 7}, {3, 5, 40}, {2, 3, 4, 5, 6}, {1, 2, 1, 1}})
      for (const double scale : {0.03, 0.0313579}) {
        const DType t = *ParseDType(type);
        const auto steps =
            CheckGraph(Cat("graph g(q: ", type, ToString(dims), ") -> (y) { ",
                           ToReals("a", "q", 0.03, type, 12), "c = GlobalAveragePool(a) ",
                           ToCodes("y", "c", scale, type, 7), "}"),
                       {AllCodes(t, dims, 2)}, 0);
        ExpectOnBytes(steps, "GlobalAveragePool");
      }
}

/// A vector is a matrix of one row.
TEST(ByteGroups, ProductsOfVectors) {
  for (std::string_view type : {"u8", "i8"}) {
    const DType t = *ParseDType(type);
    const auto steps = CheckGraph(
        Cat("graph g(q: ", type, "[70]) -> (y) { ", ToReals("a", "q", 0.03125, type, 12),
            "w = const i8[70,33] ~4 ws = const f32[] {0.0078125} b = DequantizeLinear(w, ws) ",
            "c = MatMul(a, b) ", ToCodes("y", "c", 0.5, type, 7), "}"),
        {AllCodes(t, {70}, 2)}, 0);
    ExpectOnBytes(steps, "MatMul");
  }
}

/// Activations behind a quantized convolution, of which one changes what the next gets: oneDNN
/// (2.6) gives all of one algorithm the parameters of the first.
TEST(ByteGroups, TwoActivationsOfOneKind) {
  for (std::string_view after :
       {"a = LeakyRelu(c) {alpha=0.3} r = LeakyRelu(a) {alpha=0.5} ",
        "a = LeakyRelu(c) {alpha=0.3} r = Relu(a) ", "a = Elu(c) r = Elu(a) {alpha=0.2} ",
        "l = const f32[] {-0.4} h = const f32[] {1.3} r = Clip(c, l, h) ", "r = Sigmoid(c) "})
    for (const int zero : {0, 100})
      for (const bool added : {false, true}) {
        const auto again = [&](std::string_view out, std::string_view in) {
          return Cat(ToCodes(Cat(out, "q"), in, 0.0207, "u8", zero),
                     ToReals(out, Cat(out, "q"), 0.0207, "u8", zero));
        };
        const std::string end =
            added ? Cat(again("d", "r"), "e = Add(d, x) ", again("y", "e")) : again("y", "r");
        CheckGraph(Cat("graph g(q: u8[1,16,6,5]) -> (y) { ", ToReals("x", "q", 0.0101, "u8", zero),
                       "wf = const f32[16,16,1,1] ~4 ", ToCodes("wq", "wf", 0.0093, "i8", 0),
                       ToReals("w", "wq", 0.0093, "i8", 0), "c = Conv(x, w) ", after, end, "}"),
                   {AllCodes(DType::kU8, {1, 16, 6, 5}, 2)}, kOneStep);
      }
}

}  // namespace
}  // namespace infer
