/// Depthwise convolutions and transposed convolutions of one to three dimensions: strides,
/// dilations, paddings that crop, kernels that the stride does not divide, channels that miss the
/// vectors, epilogues.
#include <array>

#include "lib/support/isa.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

void ExpectDepthwise(const std::vector<StepInfo>& steps) {
  if (BackendUnderTest().name() != "cpu") return;
  ASSERT_FALSE(steps.empty());
  EXPECT_THAT(steps.front().kernel, testing::HasSubstr("depthwise"));
}

TEST(Depthwise, OneDimension) {
  for (int64_t channels : {2, 7, 24, 33, 70})
    for (std::string_view attributes :
         {"pads=[2,2]", "pads=[4,1], dilations=[2]", "strides=[2]", "strides=[3], pads=[3,4]"})
      CheckGraph(Cat("graph g(x: f32[2,", channels, ",29]) -> (y) { w = const f32[", channels,
                     ",1,5] ~1 b = const f32[", channels, "] ~2 c = Conv(x, w, b) {group=",
                     channels, ", ", attributes, "} y = Relu(c) }"));
}

/// Windows that reach further over the borders than some of oneDNN's own kernels go.
TEST(Depthwise, WideWindows) {
  for (int64_t channels : {3, 16, 40})
    for (std::string_view window :
         {"3,3] ~1 c = Conv(x, w) {dilations=[12,12], pads=[12,12,12,12]",
          "3,5] ~1 c = Conv(x, w) {dilations=[5,2], pads=[5,4,5,4], "
          "strides=[1,2]",
          "9,1] ~1 c = Conv(x, w) {pads=[4,0,4,0]",
          "5,5] ~1 c = Conv(x, w) {dilations=[3,3], pads=[3,3,3,3]",
          "3,3] ~1 c = Conv(x, w) {dilations=[4,4], auto_pad=\"SAME_UPPER\""}) {
      const auto steps =
          CheckGraph(Cat("graph g(x: f32[2,", channels, ",9,11]) -> (y) { w = const f32[", channels,
                         ",1,", window, ", group=", channels, "} y = Relu(c) }"));
      ExpectFast(steps);
      if (channels <= 3 || BackendUnderTest().name() != "cpu") continue;
      // Which windows oneDNN has a kernel for hangs on the processor; none is gathered.
      EXPECT_THAT(steps.front().kernel,
                  testing::AnyOf(testing::HasSubstr("depthwise"), testing::HasSubstr("_dw:")));
    }
}

TEST(Depthwise, ImagesSmallerThanTheWindow) {
  const auto steps = CheckGraph(
      "graph g(x: f32[1,40,4,4]) -> (y) { w = const f32[40,1,3,3] ~1 y = Conv(x, w) {group=40, "
      "dilations=[3,3], strides=[3,3], pads=[3,3,3,3]} }");
  ExpectDepthwise(steps);
}

TEST(Depthwise, ImagesOfOnePoint) {
  const auto steps = CheckGraph(
      "graph g(x: f32[2,24,1,1]) -> (y) { w = const f32[24,1,5,5] ~1 c = Conv(x, w) {group=24, "
      "pads=[2,2,2,2]} y = Relu(c) }");
  ExpectFast(steps);
}

/// Rows of vectors of channels in a ring: where operands lie plain, and channels last behind a
/// depthwise convolution that lies so; one and two rows at a time, rows of several strips, channels
/// that miss the vectors, with and without bias, residual and activation.
TEST(Depthwise, Rings) {
  struct Case {
    int64_t channels, height, width;
    std::string_view window;
    bool always = false;  ///< where oneDNN has a kernel for AVX-512, too
  };
  constexpr std::string_view kWide = "7,7] ~1 c = Conv(x, w, b) {pads=[3,3,3,3]";
  const Case cases[] = {
      {40, 16, 29, kWide, true},
      {8, 9, 6, kWide, true},
      {24, 8, 130, kWide, true},
      {19, 15, 15, "5,5] ~1 c = Conv(x, w, b) {strides=[2,2], pads=[2,2,2,2]", true},
      {48, 30, 31, "9,9] ~1 c = Conv(x, w, b) {strides=[2,2], pads=[4,4,4,4]", true},
      {17, 33, 30, "7,5] ~1 c = Conv(x, w, b) {strides=[3,3], pads=[0,1,2,3]"},
      {40, 30, 31, "7,7] ~1 c = Conv(x, w, b) {dilations=[2,2], pads=[6,6,6,6]"}};
  for (const Case& c : cases)
    for (bool last : {false, true})
      for (std::string_view after :
           {"y = Relu(c)", "r = Neg(c) s = Sigmoid(r) y = Add(r, s)", "y = Identity(c)"}) {
        const std::string channels = Cat(c.channels, ",1,");
        const std::string before =
            last ? Cat("v = const f32[", channels, "3,3] ~4 x = Conv(i, v) {group=", c.channels,
                       ", dilations=[5,5], pads=[5,5,5,5]} ")
                 : "x = Neg(i) ";
        const auto steps = CheckGraph(Cat("graph g(i: f32[2,", c.channels, ",", c.height, ",",
                                          c.width, "]) -> (y) { ", before, "b = const f32[",
                                          c.channels, "] ~2 w = const f32[", channels, c.window,
                                          ", group=", c.channels, "} ", after, " }"));
        if (!c.always || BackendUnderTest().name() != "cpu" || !RunsIsa(Isa::kAvx512)) continue;
        EXPECT_THAT(steps[1].kernel, testing::HasSubstr("depthwise-ring")) << steps[1].op;
      }
}

TEST(Depthwise, RingsAddAResidual) {
  for (std::string_view extents : {"2,24,30,29", "1,40,7,6"})
    for (std::string_view window :
         {"7,7] ~1 c = Conv(x, w) {pads=[3,3,3,3], group=",
          "3,3] ~1 c = Conv(x, w) {dilations=[6,6], pads=[6,6,6,6], group="}) {
      const std::string_view channels = extents.substr(2, 2);
      ExpectFast(CheckGraph(Cat("graph g(i: f32[", extents, "], a: f32[", extents,
                                "]) -> (y) { x = Neg(i) r = Neg(a) w = const f32[", channels, ",1,",
                                window, channels, "} s = Add(c, r) y = Relu(s) }")));
    }
}

TEST(Depthwise, RingsHaveTheSameBits) {
  CheckSameBits(
      "graph g(i: f32[2,40,40,61]) -> (y) { x = Neg(i) w = const f32[40,1,7,7] ~1 "
      "y = Conv(x, w) {group=40, pads=[3,3,3,3]} }");
  CheckSameBits(
      "graph g(i: f32[3,80,9,7]) -> (y) { x = Neg(i) w = const f32[80,1,9,9] ~1 "
      "y = Conv(x, w) {group=80, pads=[4,4,4,4]} }");
}

TEST(Depthwise, ThreeDimensions) {
  for (int64_t channels : {2, 16, 35})
    for (std::string_view attributes :
         {"pads=[1,1,1,1,1,1]", "strides=[2,1,2], pads=[1,0,1,0,1,1]", "dilations=[1,2,1]"}) {
      const auto steps = CheckGraph(
          Cat("graph g(x: f32[2,", channels, ",5,6,7]) -> (y) { w = const f32[", channels,
              ",1,3,3,3] ~1 b = const f32[", channels, "] ~2 c = Conv(x, w, b) {group=", channels,
              ", ", attributes, "} y = Relu(c) }"));
      ExpectDepthwise(steps);
      CheckGraph(Cat("graph g(x: f32[1,", channels, ",3,4,3]) -> (y) { w = const f32[", channels,
                     ",1,2,3,2] ~1 y = ConvTranspose(x, w) {group=", channels,
                     ", strides=[2,2,1]} }"));
    }
}

TEST(Depthwise, SeveralResultsPerChannel) {
  for (auto [channels, results] : {std::array<int64_t, 2>{3, 2}, {16, 2}, {9, 4}, {5, 19}, {2, 35}})
    ExpectDepthwise(CheckGraph(Cat("graph g(x: f32[2,", channels, ",7,7]) -> (y) { w = const f32[",
                                   channels * results, ",1,3,3] ~1 c = Conv(x, w) {group=",
                                   channels, ", pads=[1,1,1,1], strides=[1,2]} y = Sigmoid(c) }")));
}

TEST(Depthwise, LongRows) {
  CheckGraph(
      "graph g(x: f32[1,5,300]) -> (y) { w = const f32[5,1,7] ~1 y = Conv(x, w) {group=5, "
      "pads=[3,3]} }");
}

constexpr std::string_view kTransposed[] = {
    "strides=[1,1]",
    "strides=[2,2]",
    "strides=[2,1], pads=[1,0,1,1]",
    "strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]",
    "strides=[3,2], pads=[0,1,1,0]",
    "strides=[4,3]",
};

TEST(Depthwise, Transposed) {
  for (int64_t channels : {3, 16, 40})
    for (std::string_view attributes : kTransposed)
      for (std::string_view kernel : {"2,2", "3,3", "4,3"})
        CheckGraph(Cat("graph g(x: f32[2,", channels, ",5,6]) -> (y) { w = const f32[", channels,
                       ",1,", kernel, "] ~1 c = ConvTranspose(x, w) {group=", channels, ", ",
                       attributes, "} y = LeakyRelu(c) }"));
}

TEST(ConvTranspose, Phases) {
  for (auto [inputs, outputs] : {std::array<int64_t, 2>{5, 1}, {16, 16}, {3, 20}})
    for (std::string_view attributes : kTransposed)
      for (std::string_view kernel : {"2,2", "3,3", "4,4", "5,3", "1,1"}) {
        if (kernel == "1,1" && attributes.find("pads") != std::string_view::npos) continue;
        CheckGraph(Cat("graph g(x: f32[2,", inputs, ",5,6]) -> (y) { w = const f32[", inputs, ",",
                       outputs, ",", kernel, "] ~1 b = const f32[", outputs,
                       "] ~2 c = ConvTranspose(x, w, b) {", attributes, "} y = Relu(c) }"));
      }
}

TEST(ConvTranspose, OneAndThreeDimensions) {
  for (std::string_view attributes : {"strides=[8], pads=[4,4]", "strides=[3]", "strides=[5]"})
    CheckGraph(
        Cat("graph g(x: f32[2,6,13]) -> (y) { w = const f32[6,9,16] ~1 y = "
            "ConvTranspose(x, w) {",
            attributes, "} }"));
  CheckGraph(
      "graph g(x: f32[2,6,3,4,5]) -> (y) { w = const f32[6,4,3,2,4] ~1 y = ConvTranspose(x, w) "
      "{strides=[2,2,2], pads=[1,0,1,0,0,1]} }");
}

TEST(ConvTranspose, Epilogues) {
  for (std::string_view after : {"y = Sigmoid(c)", "y = Add(c, z)", "r = Relu(c) y = Add(z, r)",
                                 "r = Add(c, z) y = Relu(r)"})
    for (std::string_view groups : {"1", "16"})
      CheckGraph(Cat("graph g(x: f32[1,16,4,5], z: f32[1,16,8,10]) -> (y) { w = const f32[16,",
                     groups == "1" ? "16" : "1",
                     ",2,2] ~1 c = ConvTranspose(x, w) {strides=[2,2], group=", groups, "} ", after,
                     " }"));
}

TEST(ConvTranspose, OutputShape) {
  CheckGraph(
      "graph g(x: f32[1,4,5,5]) -> (y) { w = const f32[4,3,3,3] ~1 y = ConvTranspose(x, w) "
      "{strides=[2,2], output_shape=[10,9], auto_pad=\"SAME_UPPER\"} }");
}

TEST(ConvTranspose, SameBitsForAnyNumberOfThreads) {
  for (std::string_view text :
       {"graph g(x: f32[1,48,40,41]) -> (y) { w = const f32[48,1,3,3] ~1 y = Conv(x, w) {group=48, "
        "dilations=[6,6], pads=[6,6,6,6]} }",
        "graph g(x: f32[1,24,9,20,21]) -> (y) { w = const f32[24,1,3,3,3] ~1 y = Conv(x, w) "
        "{group=24, pads=[1,1,1,1,1,1]} }",
        "graph g(x: f32[1,24,40,41]) -> (y) { w = const f32[24,20,3,3] ~1 y = ConvTranspose(x, w) "
        "{strides=[2,2], pads=[1,1,1,1]} }",
        "graph g(x: f32[1,24,40,41]) -> (y) { w = const f32[24,1,4,4] ~1 y = ConvTranspose(x, w) "
        "{group=24, strides=[2,2], pads=[1,1,1,1]} }",
        "graph g(x: f32[1,72,900]) -> (y) { w = const f32[72,1,9] ~1 y = Conv(x, w) {group=72} }"})
    CheckSameBits(text);
}

/// One slope per channel, one for all, one per element; behind a convolution, where data may lie in
/// other layouts.
TEST(PRelu, Slopes) {
  for (std::string_view slope : {"[20,1,1]", "[1,20,1,1]", "[1]", "[20,6,7]", "[7]"})
    for (std::string_view before :
         {"c = Identity(x)", "v = const f32[20,20,1,1] ~1 c = Conv(x, v)"})
      CheckGraph(Cat("graph g(x: f32[2,20,6,7]) -> (y) { s = const f32", slope, " ~2 ", before,
                     " y = PRelu(c, s) }"));
}

TEST(BatchNormalization, Layouts) {
  for (std::string_view before : {"c = Identity(x)", "v = const f32[20,20,1,1] ~1 c = Conv(x, v)"})
    CheckGraph(
        Cat("graph g(x: f32[2,20,6,7]) -> (y) { s = const f32[20] ~2 b = const f32[20] ~3 m "
            "= const f32[20] ~4 n = const f32[20] ~5 k = Mul(n, n) ",
            before, " r = Relu(c) y = BatchNormalization(r, s, b, m, k) {epsilon=0.1} }"));
}

}  // namespace
}  // namespace infer
