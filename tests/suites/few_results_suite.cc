/// Convolutions and transposed convolutions of few results, 1x1 windows with strides, products of
/// few columns or terms: extents that fill and miss vectors and strips, windows that reach over the
/// borders, what may follow, both ways that an operand may lie.
#include <array>

#include "lib/support/isa.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

void ExpectKernel(const std::vector<StepInfo>& steps, std::string_view kernel) {
  if (BackendUnderTest().name() != "cpu") return;
  bool found = false;
  std::string all;
  for (const StepInfo& s : steps) {
    found |= s.kernel.find(kernel) != std::string::npos;
    all += Cat(s.op, "=", s.kernel, " ", Join(s.refusals, "; "), "\n");
  }
  EXPECT_TRUE(found) << "no " << kernel << " in\n" << all;
}

constexpr std::string_view kWindows[] = {
    "1,1] ~1 c = Conv(x, w, b)",
    "3,3] ~1 c = Conv(x, w, b) {pads=[1,1,1,1]}",
    "3,3] ~1 c = Conv(x, w, b)",
    "3,3] ~1 c = Conv(x, w, b) {strides=[2,2], pads=[1,1,1,1]}",
    "5,3] ~1 c = Conv(x, w, b) {strides=[1,3], pads=[2,0,3,2]}",
    "3,2] ~1 c = Conv(x, w, b) {dilations=[2,3], pads=[2,3,1,0]}",
    "2,2] ~1 c = Conv(x, w, b) {strides=[3,3], dilations=[2,1], pads=[1,0,0,2]}",
    "4,4] ~1 c = Conv(x, w, b) {auto_pad=\"SAME_UPPER\", strides=[2,1]}",
};

TEST(FewResults, Windows) {
  for (int64_t outputs : {1, 3, 4})
    for (auto [height, width] : {std::array<int64_t, 2>{9, 11}, {7, 70}, {40, 33}})
      for (std::string_view window : kWindows) {
        const auto steps = CheckGraph(
            Cat("graph g(x: f32[2,5,", height, ",", width, "]) -> (y) { b = const f32[", outputs,
                "] ~2 w = const f32[", outputs, ",5,", window, " y = Relu(c) }"),
            static_cast<uint64_t>(outputs));
        ExpectFast(steps);
        if (height * width > 400) ExpectKernel(steps, "own:planes");
      }
}

/// More channels than are copied at once; rows that are cut.
TEST(FewResults, ManyChannelsAndLongRows) {
  for (std::string_view window : kWindows)
    ExpectKernel(
        CheckGraph(Cat("graph g(x: f32[1,70,12,13]) -> (y) { b = const f32[2] ~2 w = const "
                       "f32[2,70,",
                       window, " y = Sigmoid(c) }")),
        "own:planes");
  for (std::string_view attributes : {"pads=[2,2]", "strides=[2]", "dilations=[7], pads=[3,20]"})
    ExpectKernel(CheckGraph(Cat(
                     "graph g(x: f32[2,9,3001]) -> (y) { w = const f32[3,9,5] ~1 y = Conv(x, w) {",
                     attributes, "} }")),
                 "own:planes");
  ExpectKernel(CheckGraph("graph g(x: f32[1,3,5,1200]) -> (y) { w = const f32[1,3,3,3] ~1 "
                          "y = Conv(x, w) {pads=[1,1,1,1]} }"),
               "own:planes");
}

constexpr std::string_view kFewAfter[] = {
    "y = Identity(c)",
    "y = Sigmoid(c)",
    "s = Sigmoid(c) y = Mul(c, s)",
    "lo = const f32[] {-0.25} hi = const f32[] {0.5} y = Clip(c, lo, hi)",
    "r = Add(c, z) y = Relu(r)",
    "r = Relu(c) y = Add(z, r)",
    "r = Add(c, c) y = Relu(r)",
};

/// One channel of one dimension, many results: no few at all, but in the same kernel.
TEST(FewResults, OneLine) {
  for (int64_t outputs : {17, 40, 100})
    for (int64_t points : {70, 333, 4001})
      for (std::string_view window :
           {"10] ~1 c = Conv(x, w, b) {strides=[5]}", "3] ~1 c = Conv(x, w, b) {pads=[1,1]}",
            "7] ~1 c = Conv(x, w, b) {strides=[3], dilations=[2], pads=[6,9]}",
            "1] ~1 c = Conv(x, w, b)", "16] ~1 c = Conv(x, w, b) {auto_pad=\"SAME_LOWER\"}"}) {
        const std::string text = Cat("graph g(x: f32[2,1,", points, "]) -> (y) { b = const f32[",
                                     outputs, "] ~2 w = const f32[", outputs, ",1,", window);
        const auto steps = CheckGraph(text + " y = Gelu(c) }", static_cast<uint64_t>(points));
        ExpectFast(steps);
        if (points > 3000) ExpectKernel(steps, "own:planes");
        CheckGraph(text + " y = InstanceNormalization(c, b, b) }");
      }
  ExpectKernel(
      CheckGraph("graph g(x: f32[1,1,900]) -> (y) { w = const f32[40,1,4] ~1 c = Conv(x, w) "
                 "{strides=[2]} r = const f32[40,449] ~3 s = Add(c, r) y = Relu(s) }"),
      "own:planes");
  CheckSameBits(
      "graph g(x: f32[1,1,9000]) -> (y) { w = const f32[64,1,10] ~1 y = Conv(x, w) "
      "{strides=[5]} }");
}

TEST(FewResults, Epilogues) {
  for (std::string_view after : kFewAfter) {
    CheckGraph(
        Cat("graph g(x: f32[2,20,9,10], z: f32[2,3,9,10]) -> (y) { w = const f32[3,20,3,3] ~1 "
            "b = const f32[3] ~2 c = Conv(x, w, b) {pads=[1,1,1,1]} ",
            after, " }"));
    CheckGraph(
        Cat("graph g(x: f32[2,20,5,6], z: f32[2,3,10,12]) -> (y) { w = const f32[20,3,4,4] ~1 "
            "b = const f32[3] ~2 c = ConvTranspose(x, w, b) {strides=[2,2], pads=[1,1,1,1]} ",
            after, " }"));
    CheckGraph(
        Cat("graph g(x: f32[2,20,17,19], z: f32[2,37,9,10]) -> (y) { w = const "
            "f32[37,20,1,1] ~1 b = const f32[37] ~2 c = Conv(x, w, b) {strides=[2,2]} ",
            after, " }"));
  }
}

/// Behind another convolution operands lie channels last, where the machine likes that.
TEST(FewResults, ChannelsLast) {
  for (int64_t channels : {16, 24, 70})
    for (int64_t outputs : {1, 2, 3, 4})
      for (std::string_view window : kWindows)
        CheckGraph(Cat("graph g(i: f32[2,3,15,13]) -> (y) { f = const f32[", channels,
                       ",3,3,3] ~3 k = const f32[] {0.2} a = Conv(i, f) {pads=[1,1,1,1]} "
                       "r = Relu(a) x = Mul(r, k) b = const f32[",
                       outputs, "] ~2 w = const f32[", outputs, ",", channels, ",", window,
                       " y = Sigmoid(c) }"),
                   3);
  CheckGraph(
      "graph g(i: f32[1,3,6,7,8]) -> (y) { f = const f32[32,3,3,3,3] ~3 a = Conv(i, f) r = Relu(a) "
      "w = const f32[2,32,2,3,2] ~1 y = Conv(r, w) {pads=[1,1,1,0,0,0]} }");
}

constexpr std::string_view kFewTransposed[] = {
    "strides=[1,1]",
    "strides=[2,2]",
    "strides=[2,1], pads=[1,0,1,1]",
    "strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]",
    "strides=[3,2], pads=[0,1,1,0]",
    "strides=[4,3]",
    "strides=[2,2], dilations=[3,2]",
};

TEST(FewResults, Transposed) {
  for (auto [inputs, outputs] : {std::array<int64_t, 2>{5, 1}, {3, 3}, {40, 4}})
    for (std::string_view attributes : kFewTransposed)
      for (std::string_view kernel : {"2,2", "3,3", "4,4", "5,3", "1,1"}) {
        if (kernel == "1,1" && attributes.find("pads") != std::string_view::npos) continue;
        const auto steps =
            CheckGraph(Cat("graph g(x: f32[2,", inputs, ",5,21]) -> (y) { w = const f32[", inputs,
                           ",", outputs, ",", kernel, "] ~1 b = const f32[", outputs,
                           "] ~2 c = ConvTranspose(x, w, b) {", attributes, "} y = Relu(c) }"));
        ExpectKernel(steps, "own:planes");
        CheckGraph(
            Cat("graph g(i: f32[2,3,6,7]) -> (y) { f = const f32[32,3,1,1] ~3 a = Conv(i, f) "
                "x = Relu(a) w = const f32[32,",
                outputs, ",", kernel, "] ~1 y = ConvTranspose(x, w) {", attributes, "} }"));
      }
  ExpectKernel(CheckGraph("graph g(x: f32[2,6,130]) -> (y) { w = const f32[6,2,16] ~1 y = "
                          "ConvTranspose(x, w) {strides=[8], pads=[4,4]} }"),
               "own:planes");
}

/// By one product of all taps, where instructions and layers suit it: sums of many channels, images
/// of few points, borders that are cropped, what may follow.
TEST(FewResults, TransposedOfManyChannels) {
  for (auto [inputs, outputs] : {std::array<int64_t, 2>{128, 1}, {131, 12}, {160, 40}})
    for (std::string_view attributes : kFewTransposed)
      for (std::string_view kernel : {"2,2", "3,3", "5,3"})
        CheckGraph(Cat("graph g(x: f32[2,", inputs, ",5,6]) -> (y) { w = const f32[", inputs, ",",
                       outputs, ",", kernel, "] ~1 b = const f32[", outputs,
                       "] ~2 c = ConvTranspose(x, w, b) {", attributes, "} y = Relu(c) }"));
  for (std::string_view after : kFewAfter)
    CheckGraph(
        Cat("graph g(x: f32[2,130,5,6], z: f32[2,9,10,12]) -> (y) { w = const f32[130,9,4,4] ~1 "
            "b = const f32[9] ~2 k = const f32[] {0.02} u = Mul(x, k) c = ConvTranspose(u, w, b) "
            "{strides=[2,2], pads=[1,1,1,1]} ",
            after, " }"));
  const auto by_product = CheckGraph(
      "graph g(x: f32[2,140,5,6]) -> (y) { w = const f32[140,20,4,4] ~1 y = ConvTranspose(x, w) "
      "{strides=[2,2]} }");
  if (RunsIsa(Isa::kAvx2)) ExpectKernel(by_product, "own:taps");
  CheckGraph(
      "graph g(x: f32[2,140,13]) -> (y) { w = const f32[140,9,16] ~1 y = ConvTranspose(x, w) "
      "{strides=[8], pads=[4,4]} }");
  CheckGraph(
      "graph g(x: f32[2,140,3,4,5]) -> (y) { w = const f32[140,5,3,2,4] ~1 y = ConvTranspose(x, w) "
      "{strides=[2,2,2], pads=[1,0,1,0,0,1]} }");
  CheckSameBits(
      "graph g(x: f32[1,160,14,15]) -> (y) { w = const f32[160,12,4,4] ~1 y = ConvTranspose(x, w) "
      "{strides=[2,2], pads=[1,1,1,1]} }");
}

/// One channel with several results, groups of few channels; more results than are summed at once.
TEST(FewResults, Groups) {
  for (auto [groups, inputs, results] :
       {std::array<int64_t, 3>{6, 1, 2}, {3, 1, 5}, {2, 1, 32}, {4, 3, 2}, {5, 2, 11}})
    for (auto [height, width] : {std::array<int64_t, 2>{9, 11}, {7, 70}, {40, 33}})
      for (std::string_view window : kWindows) {
        const bool has = window.find('{') != std::string_view::npos;
        const auto steps =
            CheckGraph(Cat("graph g(x: f32[2,", groups * inputs, ",", height, ",", width,
                           "]) -> (y) { b = const f32[", groups * results, "] ~2 w = const f32[",
                           groups * results, ",", inputs, ",",
                           has ? window.substr(0, window.size() - 1) : Cat(window, " {"),
                           has ? ", " : "", "group=", groups, "} y = Relu(c) }"),
                       static_cast<uint64_t>(results));
        ExpectFast(steps);
        if (height * width > 1000) ExpectKernel(steps, "own:planes");
      }
}

TEST(FewResults, GroupsOfRows) {
  for (auto [groups, inputs, results] : {std::array<int64_t, 3>{6, 1, 2}, {3, 1, 5}, {2, 4, 3}})
    for (std::string_view attributes :
         {"pads=[2,2]", "strides=[2]", "strides=[3], pads=[4,0]", "dilations=[7], pads=[3,20]"})
      ExpectKernel(
          CheckGraph(Cat("graph g(x: f32[2,", groups * inputs, ",301]) -> (y) { w = const f32[",
                         groups * results, ",", inputs, ",5] ~1 c = Conv(x, w) {group=", groups,
                         ", ", attributes, "} y = Sigmoid(c) }")),
          "own:planes");
}

TEST(FewResults, GroupsAndEpilogues) {
  for (std::string_view after : kFewAfter)
    for (std::string_view window : {"1,1", "2,2"})
      ExpectKernel(
          CheckGraph(Cat("graph g(x: f32[2,8,10,11], z: f32[2,24,10,11]) -> (y) { w = const "
                         "f32[24,1,",
                         window, "] ~1 b = const f32[24] ~2 c = Conv(x, w, b) {group=8, ",
                         "auto_pad=\"SAME_UPPER\"} ", after, " }")),
          "own:planes");
}

TEST(FewResults, TransposedGroups) {
  for (auto [groups, inputs, results] : {std::array<int64_t, 3>{6, 1, 2}, {3, 1, 5}, {2, 4, 3}})
    for (std::string_view attributes : kFewTransposed)
      for (std::string_view kernel : {"2,2", "4,3"})
        CheckGraph(Cat("graph g(x: f32[2,", groups * inputs, ",5,21]) -> (y) { w = const f32[",
                       groups * inputs, ",", results, ",", kernel, "] ~1 b = const f32[",
                       groups * results, "] ~2 c = ConvTranspose(x, w, b) {group=", groups, ", ",
                       attributes, "} y = Relu(c) }"));
}

TEST(FewResults, PointsWithStrides) {
  for (int64_t outputs : {8, 9, 30, 64})
    for (auto [height, width] :
         {std::array<int64_t, 2>{1, 1}, {7, 7}, {14, 13}, {15, 56}, {30, 410}})
      for (std::string_view strides : {"2,2", "1,2", "3,2"}) {
        const auto steps =
            CheckGraph(Cat("graph g(x: f32[2,50,", height, ",", width, "]) -> (y) { w = const f32[",
                           outputs, ",50,1,1] ~1 b = const f32[", outputs,
                           "] ~2 c = Conv(x, w, b) {strides=[", strides, "]} y = Relu(c) }"));
        if (height > 14) ExpectKernel(steps, "own:planes");
      }
  CheckGraph(
      "graph g(x: f32[1,20,31]) -> (y) { w = const f32[40,20,1] ~1 y = Conv(x, w) {strides=[2], "
      "pads=[1,2]} }");
  CheckGraph(
      "graph g(x: f32[1,20,9,9]) -> (y) { w = const f32[300,20,1,1] ~1 y = Conv(x, w) "
      "{strides=[2,2], pads=[1,2,0,1]} }");
}

TEST(FewResults, SameBitsForAnyNumberOfThreads) {
  for (std::string_view text :
       {"graph g(x: f32[1,64,60,61]) -> (y) { w = const f32[3,64,3,3] ~1 y = Conv(x, w) "
        "{pads=[1,1,1,1]} }",
        "graph g(x: f32[1,64,60,61]) -> (y) { w = const f32[700,64,1,1] ~1 y = Conv(x, w) "
        "{strides=[2,2]} }",
        "graph g(x: f32[1,64,40,41]) -> (y) { w = const f32[64,2,4,4] ~1 y = ConvTranspose(x, w) "
        "{strides=[2,2], pads=[1,1,1,1]} }",
        "graph g(i: f32[1,3,60,61]) -> (y) { f = const f32[64,3,3,3] ~3 a = Conv(i, f) r = Relu(a) "
        "w = const f32[2,64,3,3] ~1 y = Conv(r, w) {pads=[1,1,1,1]} }",
        "graph g(x: f32[1,32,60,61]) -> (y) { w = const f32[96,1,3,3] ~1 y = Conv(x, w) {group=32, "
        "pads=[1,1,1,1]} }",
        "graph g(x: f32[900,300]) -> (y) { w = const f32[300,5] ~1 y = MatMul(x, w) }",
        "graph g(x: f32[900,3]) -> (y) { w = const f32[3,300] ~1 y = MatMul(x, w) }"})
    CheckSameBits(text);
}

TEST(SkinnyProduct, Shapes) {
  for (int64_t rows : {2, 5, 8, 33})
    for (auto [depth, columns] : {std::array<int64_t, 2>{16, 1},
                                  {17, 2},
                                  {100, 3},
                                  {64, 4},
                                  {33, 5},
                                  {500, 7},
                                  {1, 16},
                                  {2, 31},
                                  {3, 64},
                                  {5, 100},
                                  {7, 1100}}) {
      ExpectKernel(
          CheckGraph(Cat("graph g(x: f32[2,", rows, ",", depth, "]) -> (y) { w = const f32[", depth,
                         ",", columns, "] ~1 y = MatMul(x, w) }")),
          "own:skinny");
      const auto of_run = CheckGraph(Cat("graph g(x: f32[3,", rows, ",", depth, "], w: f32[3,",
                                         depth, ",", columns, "]) -> (y) { y = MatMul(x, w) }"));
      // Where the result leaves the caches writing it is all that counts.
      if (columns <= 7 || 3 * rows * columns <= 1 << 16) ExpectKernel(of_run, "own:skinny");
      ExpectKernel(CheckGraph(Cat("graph g(x: f32[", rows, ",", depth, "], w: f32[", columns, ",",
                                  depth, "], c: f32[", columns,
                                  "]) -> (y) { p = Gemm(x, w, c) {transB=1} y = Relu(p) }")),
                   "own:skinny");
      ExpectKernel(CheckGraph(Cat("graph g(x: f32[", rows, ",", depth, "], z: f32[", rows, ",",
                                  columns, "]) -> (y) { w = const f32[", columns, ",", depth,
                                  "] ~1 c = const f32[", columns,
                                  "] ~2 p = Gemm(x, w, c) {transB=1, alpha=-2.0, beta=0.25} "
                                  "r = Add(p, z) y = Sigmoid(r) }")),
                   "own:skinny");
    }
}

}  // namespace
}  // namespace infer
