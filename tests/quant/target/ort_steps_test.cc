#include "quant/target/ort_steps.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "lib/support/strings.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

std::vector<OrtStep> StepsOf(const Graph& g) { return OrtStepsOf(g, {17, 8}, *FindTarget("ort")); }
std::vector<std::string> FamiliesOf(const std::vector<OrtStep>& steps) {
  std::vector<std::string> families;
  for (const OrtStep& s : steps)
    if (s.node) families.emplace_back(s.family);
  return families;
}
std::vector<std::string> FamiliesOf(std::string_view text) {
  return FamiliesOf(StepsOf(MustParse(text)));
}

/// Codes of a convolution by weights [8, 8, k, k], in groups; `end` begins at its result c.
std::string CodesConv(int k, std::string_view attributes, int per_group, std::string_view end) {
  return Cat(R"(graph g(x: f32[1,8,6,6]) -> (y) {
    s = const f32[] {0.1}
    z = const u8[] {0}
    w = const i8[8,)",
             per_group, ",", k, ",", k, R"(] ~1
    t = const f32[] {0.01}
    o = const i8[] {0}
    q = QuantizeLinear(x, s, z)
    d = DequantizeLinear(q, s, z)
    v = DequantizeLinear(w, t, o)
    c = Conv(d, v) {)",
             attributes, "}\n", end, "}");
}
constexpr std::string_view kCodesOut = R"(r = Relu(c)
    e = QuantizeLinear(r, s, z)
    y = DequantizeLinear(e, s, z)
)";

TEST(OrtSteps, ARunIsACall) {
  const auto steps = StepsOf(MustParse("graph g(x: f32[2]) -> (y) { y = Relu(x) }"));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].family, "call");
  EXPECT_EQ(steps[1].family, "elements f32");
}

/// Epilogues behind a convolution in f32 are part of it; the graph's plain result is a copy.
TEST(OrtSteps, FloatConvolutionsTakeInWhatFollows) {
  EXPECT_THAT(FamiliesOf(R"(graph g(x: f32[1,16,6,6]) -> (y) {
    w = const f32[16,16,3,3] ~1
    a = Conv(x, w) {pads=[1,1,1,1]}
    r = Relu(a)
    b = Conv(r, w) {pads=[1,1,1,1]}
    c = Add(b, r)
    y = Relu(c)
  })"),
              ElementsAre("layout", "conv f32", "conv f32", "layout"));
}

/// A result that another node reads, too, is made before the sum.
TEST(OrtSteps, WhatOthersReadIsNotTakenIn) {
  EXPECT_THAT(FamiliesOf(R"(graph g(x: f32[1,16,6,6]) -> (y) {
    w = const f32[16,16,1,1] ~1
    a = Conv(x, w)
    b = Sigmoid(a)
    y = Mul(a, b)
  })"),
              ElementsAre("layout", "conv1x1 f32", "functions f32", "elements f32", "layout"));
}

TEST(OrtSteps, CodesAreConvolvedWithoutQuantizeAndDequantize) {
  const auto steps = StepsOf(MustParse(CodesConv(3, "", 8, kCodesOut)));
  EXPECT_THAT(FamiliesOf(steps),
              ElementsAre("quantize", "layout int8", "conv int8", "dequantize", "layout"));
  // Eight columns take as long as 48.
  EXPECT_NEAR(steps[3].mflop, 2e-6 * 16 * 48 * 8 * 9, 1e-4);
  EXPECT_GT(steps[3].kb, 2e-3 * 16 * 8 * 9);  // columns
  EXPECT_THAT(FamiliesOf(CodesConv(1, "", 8, kCodesOut)), Contains("conv1x1 int8"));
  EXPECT_THAT(FamiliesOf(CodesConv(3, "group=8", 1, kCodesOut)), Contains("depthwise int8"));
  EXPECT_THAT(FamiliesOf(CodesConv(3, "group=2", 4, kCodesOut)), Contains("grouped conv int8"));
}

/// A MatMul and the Add of a bias with codes are one integer kernel.
TEST(OrtSteps, BiasesOfCodesAreTakenIn) {
  constexpr std::string_view kProduct = R"(graph g(x: u8[4,2,2]) -> (y) {
    s = const f32[] {0.1}
    z = const u8[] {3}
    w = const i8[2, 2] {1, 2, 3, 4}
    t = const f32[2] {0.1, 0.2}
    o = const i8[2] {0, 0}
    d = DequantizeLinear(x, s, z)
    v = DequantizeLinear(w, t, o) {axis=1}
    m = MatMul(d, v)
    )";
  const std::string codes = "c = const i32[2] {1, 2}\n b = DequantizeLinear(c, t) {axis=0}\n",
                    sum = "a = Add(m, b)\n",
                    rounded = "q = QuantizeLinear(a, s, z)\n y = DequantizeLinear(q, s, z)\n}";
  EXPECT_THAT(FamiliesOf(Cat(kProduct, codes, sum, "y = Sigmoid(a)\n}")),
              ElementsAre("product int8", "functions f32"));
  EXPECT_THAT(FamiliesOf(Cat(kProduct, codes, sum, rounded)),
              ElementsAre("product int8", "dequantize"));
  EXPECT_THAT(FamiliesOf(Cat(kProduct, "b = const f32[2] {1, 2}\n", sum, "y = Sigmoid(a)\n}")),
              ElementsAre("dequantize", "dequantize weights", "product f32", "functions f32"));
}

/// A Gemm and its Relu are one kernel before codes are looked for; other activations are left.
TEST(OrtSteps, ARectifiedGemmIsNotInteger) {
  constexpr std::string_view kGemm = R"(graph g(x: u8[4,2]) -> (y) {
    s = const f32[] {0.1}
    z = const u8[] {0}
    w = const i8[2, 2] {1, 2, 3, 4}
    t = const f32[2] {0.1, 0.2}
    o = const i8[2] {0, 0}
    d = DequantizeLinear(x, s, z)
    v = DequantizeLinear(w, t, o) {axis=1}
    m = Gemm(d, v)
    )";
  EXPECT_THAT(FamiliesOf(Cat(kGemm, "y = Relu(m)\n}")),
              ElementsAre("dequantize", "dequantize weights", "product f32"));
  EXPECT_THAT(FamiliesOf(Cat(kGemm, "y = Tanh(m)\n}")),
              ElementsAre("product int8", "functions f32"));
  EXPECT_THAT(FamiliesOf(Cat(kGemm,
                             "r = Relu(m)\n q = QuantizeLinear(r, s, z)\n"
                             "y = DequantizeLinear(q, s, z)\n}")),
              ElementsAre("product int8", "dequantize"));
  const Graph g = MustParse(Cat(kGemm, "y = Relu(m)\n}"));
  EXPECT_THAT(FamiliesOf(OrtStepsOf(g, {17, 8}, *FindTarget("ort-1.20"))),
              Contains("product int8"));
}

/// No integer kernel returns floats of a convolution: Q and DQ stay around it, and its weights are
/// dequantized in every run.
TEST(OrtSteps, QuantizeAndDequantizeStayAroundFloats) {
  EXPECT_THAT(FamiliesOf(CodesConv(3, "", 8, "y = Relu(c)\n")),
              ElementsAre("quantize", "dequantize", "dequantize weights", "grouped conv f32"));
  // The copy of the input is shared. Sub has no kernel on codes; what Add and Sub both read is
  // dequantized once.
  EXPECT_THAT(FamiliesOf(CodesConv(1, "", 8, R"(r = Relu(c)
    e = QuantizeLinear(r, s, z)
    f = DequantizeLinear(e, s, z)
    a = Add(f, d)
    h = QuantizeLinear(a, s, z)
    i = DequantizeLinear(h, s, z)
    m = Sub(i, f)
    n = QuantizeLinear(m, s, z)
    y = DequantizeLinear(n, s, z)
)")),
              ElementsAre("quantize", "layout int8", "conv1x1 int8", "dequantize", "elements int8",
                          "dequantize", "elements f32", "quantize", "dequantize", "layout"));
}

/// Channels last a max pool of codes is another kernel than of channels first.
TEST(OrtSteps, PoolsOfCodesByLayout) {
  constexpr std::string_view kPool = R"(r = Relu(c)
    e = QuantizeLinear(r, s, z)
    f = DequantizeLinear(e, s, z)
    p = MaxPool(f) {kernel_shape=[2,2]}
    h = QuantizeLinear(p, s, z)
    y = DequantizeLinear(h, s, z)
)";
  EXPECT_THAT(FamiliesOf(CodesConv(1, "", 8, kPool)), Contains("max pool last int8"));
  EXPECT_THAT(FamiliesOf(R"(graph g(x: u8[1,8,6,6]) -> (y) {
    s = const f32[] {0.1}
    z = const u8[] {0}
    d = DequantizeLinear(x, s, z)
    p = MaxPool(d) {kernel_shape=[2,2]}
    y = QuantizeLinear(p, s, z)
  })"),
              ElementsAre("max pool int8"));
}

/// Pools and views run on codes where Q or DQ is on one side of them: Q is moved before, DQ behind.
TEST(OrtSteps, CodesMoveThroughPoolsAndViews) {
  constexpr std::string_view kPool = "p = MaxPool(c) {kernel_shape=[2,2]}\n";
  EXPECT_THAT(FamiliesOf(CodesConv(1, "", 8, Cat(kPool, R"(e = QuantizeLinear(p, s, z)
    y = DequantizeLinear(e, s, z)
)"))),
              ElementsAre("quantize", "layout int8", "conv1x1 int8", "max pool last int8",
                          "dequantize", "layout"));
  EXPECT_THAT(FamiliesOf(R"(graph g(x: f32[1,16,6,6]) -> (y) {
    s = const f32[] {0.1}
    z = const u8[] {0}
    w = const f32[16,16,1,1] ~1
    c = Conv(x, w)
    p = MaxPool(c) {kernel_shape=[2,2]}
    y = QuantizeLinear(p, s, z)
  })"),
              ElementsAre("layout", "conv1x1 f32", "layout", "quantize", "max pool int8"));
  EXPECT_THAT(
      FamiliesOf(R"(graph g(x: u8[1,8,6,6]) -> (y, z) {
    s = const f32[] {0.1}
    o = const u8[] {0}
    d = DequantizeLinear(x, s, o)
    p = MaxPool(d) {kernel_shape=[2,2]}
    y = Sigmoid(p)
    z = Tanh(p)
  })"),
      ElementsAre("max pool int8", "dequantize", "dequantize", "functions f32", "functions f32"));
}

/// Pools take blocks of channels, but no part of one.
TEST(OrtSteps, PoolsOfWholeBlocks) {
  for (const auto& [channels, copies] : {std::pair{16, 0}, {24, 1}}) {
    const auto families =
        FamiliesOf(Cat("graph g(x: f32[1,3,6,6]) -> (y) {\n w = const f32[", channels,
                       ",3,3,3] ~1\n c = Conv(x, w)\n p = MaxPool(c) {kernel_shape=[2,2]}\n"
                       "y = GlobalAveragePool(p)\n}"));
    EXPECT_EQ(std::count(families.begin(), families.end(), "layout"), copies) << channels;
  }
}

/// Below opset 20 a Gelu of codes stays in parts, in a file for nobody in particular.
TEST(OrtSteps, GeluOfCodesInParts) {
  const Graph g = MustParse(R"(graph g(x: u8[4,4]) -> (y) {
    s = const f32[] {0.1}
    z = const u8[] {0}
    d = DequantizeLinear(x, s, z)
    y = Gelu(d)
  })");
  const Target& ort = *FindTarget("ort");
  EXPECT_EQ(OrtStepsOf(g, {17, 8}, ort, true).size(), 8u);
  EXPECT_EQ(OrtStepsOf(g, {20, 9}, ort, true).size(), 3u);
  EXPECT_EQ(OrtStepsOf(g, {17, 8}, ort).size(), 3u);
}

/// A Gemm adds any result of its extents; a transposed operand is read as it is.
TEST(OrtSteps, ProductsTakeInSumsAndTranspositions) {
  EXPECT_THAT(FamiliesOf(R"(graph g(x: f32[4,4]) -> (y) {
    w = const f32[4,4] ~1
    t = Transpose(x) {perm=[1,0]}
    m = MatMul(t, w)
    y = Add(m, x)
  })"),
              ElementsAre("product f32"));
}

/// Weights in 8 bits of a layer that computes in f32 are folded when the file is loaded.
TEST(OrtSteps, StoredWeightsAreFree) {
  EXPECT_THAT(FamiliesOf(R"(graph g(x: f32[4,8]) -> (y) {
    w = const i8[8,8] ~1
    s = const f32[8] ~2
    c = Cast(w) {to=1}
    v = Mul(c, s)
    m = MatMul(x, v)
    b = const f32[8] ~3
    y = Add(m, b)
  })"),
              ElementsAre("product f32"));
}

/// One channel, or one position, is in the same order in every layout.
TEST(OrtSteps, NoCopiesOfOneOrder) {
  EXPECT_THAT(FamiliesOf(R"(graph g(x: f32[1,8,1,1]) -> (y) {
    w = const f32[8,8,1,1] ~1
    y = Conv(x, w)
  })"),
              Not(Contains("layout")));
}

TEST(OrtSteps, EveryFamilyIsListed) {
  const auto families = OrtFamilies();
  for (const auto& text : {CodesConv(3, "", 8, kCodesOut), CodesConv(1, "", 8, "y = Tanh(c)\n")})
    for (const std::string& f : FamiliesOf(text))
      EXPECT_NE(std::find(families.begin(), families.end(), f), families.end()) << f;
}

}  // namespace
}  // namespace infer
