/// Convolutions whose channels, points and epilogues meet or miss the blocks of the fast kernels:
/// 3x3 by Winograd at level 2, 1x1.
#include <array>

#include "tests/suites/suite.h"

namespace infer {
namespace {

/// Winograd's bound against the exact value, relative to the largest.
constexpr double kWinograd = 2e-5;

std::string Conv3x3(int64_t n, int64_t inputs, int64_t outputs, int64_t height, int64_t width,
                    std::string_view pads, std::string_view after) {
  return Cat("graph g(x: f32[", n, ",", inputs, ",", height, ",", width,
             "]) -> (y) { w = const f32[", outputs, ",", inputs, ",3,3] ~1 b = const f32[", outputs,
             "] ~2 c = Conv(x, w, b) {pads=[", pads, "]} ", after, " }");
}

TEST(Convolution, WinogradShapes) {
  for (auto [inputs, outputs] : {std::array<int64_t, 2>{16, 16}, {17, 33}, {24, 16}, {48, 40}})
    for (auto [height, width] : {std::array<int64_t, 2>{7, 7}, {8, 9}, {13, 14}, {5, 40}, {28, 3}})
      for (std::string_view pads : {"1,1,1,1", "0,0,0,0", "2,0,1,3"}) {
        if (height < 4 || (width < 4 && pads == "0,0,0,0")) continue;
        CheckGraph(Conv3x3(2, inputs, outputs, height, width, pads, "y = Relu(c)"), 7, kWinograd);
      }
}

TEST(Convolution, WinogradInBatches) {
  CheckGraph(Conv3x3(1, 32, 32, 60, 57, "1,1,1,1", "y = Identity(c)"), 3, kWinograd);
  CheckGraph(Conv3x3(3, 160, 16, 20, 20, "1,1,1,1", "y = Identity(c)"), 3, kWinograd);
}

constexpr std::string_view kAfter[] = {
    "y = Identity(c)",
    "y = Sigmoid(c)",
    "y = Tanh(c)",
    "s = Sigmoid(c) y = Mul(c, s)",
    "lo = const f32[] {-0.25} hi = const f32[] {0.5} y = Clip(c, lo, hi)",
    "r = Add(c, z) y = Relu(r)",
    "r = Relu(c) y = Add(z, r)",
    "r = Sigmoid(c) y = Add(z, r)",
    "r = Add(c, z) y = Gelu(r)",
    "r = Add(c, c) y = Relu(r)",
};

/// x is scaled so that the sums are near 1: the bound of Winograd counts from the largest of them,
/// whatever a saturating function makes of it. With a second input z of the result's extents for
/// residuals.
std::string WithResidual(std::string_view conv, int64_t channels, int64_t outputs, int64_t height,
                         int64_t width, std::string_view after) {
  return Cat("graph g(x: f32[2,", channels, ",", height, ",", width, "], z: f32[2,", outputs, ",",
             height, ",", width, "]) -> (y) { k = const f32[] {0.03} t = Mul(x, k) ", conv, " ",
             after, " }");
}

TEST(Convolution, Epilogues) {
  for (int64_t outputs : {32, 20})
    for (std::string_view after : kAfter) {
      CheckGraph(WithResidual(Cat("w = const f32[", outputs, ",16,3,3] ~1 b = const f32[", outputs,
                                  "] ~2 c = Conv(t, w, b) {pads=[1,1,1,1]}"),
                              16, outputs, 9, 10, after),
                 5, kWinograd);
      CheckGraph(WithResidual(Cat("w = const f32[", outputs, ",16,1,1] ~1 c = Conv(t, w)"), 16,
                              outputs, 9, 10, after),
                 5);
    }
}

/// Convolutions with an addition behind an activation, which oneDNN has no kernel for without
/// AVX-512, and longer ends: each of their parts runs on a fast kernel, in channels that fill
/// blocks of 8 and that do not.
constexpr std::string_view kEnds[] = {
    "r = Relu(c) y = Add(r, z)",
    "r = Sigmoid(c) y = Add(z, r)",
    "r = HardSwish(c) y = Add(r, z)",
    "r = Relu(c) s = Add(r, z) y = Relu(s)",
    "s = Sigmoid(c) m = Mul(c, s) y = Add(m, z)",
};

TEST(Convolution, GroupsThatNoKernelTakesWhole) {
  for (int64_t outputs : {3, 8, 12, 20, 32})
    for (std::string_view after : kEnds)
      for (int64_t taps : {1, 3, 5}) {
        const int64_t pad = taps / 2;
        ExpectFast(CheckGraph(
            WithResidual(Cat("w = const f32[", outputs, ",16,", taps, ",", taps,
                             "] ~1 b = const f32[", outputs, "] ~2 c = Conv(t, w, b) {pads=[", pad,
                             ",", pad, ",", pad, ",", pad, "]}"),
                         16, outputs, 9, 10, after),
            5, kWinograd));
      }
  for (std::string_view after : kEnds)
    ExpectFast(CheckGraph(WithResidual("w = const f32[20,4,3,3] ~1 c = Conv(t, w) "
                                       "{group=4, pads=[1,1,1,1]}",
                                       16, 20, 9, 10, after),
                          5, kWinograd));
}

/// The residual is the operand of the convolution, is read again behind it, and is returned; the
/// extents come with the run.
TEST(Convolution, PartsKeepWhatOthersRead) {
  constexpr std::string_view kHead = "graph g(x: f32[2,12,H,9], n: f32[2,12,1,1]) -> ";
  constexpr std::string_view kWeights =
      " { w = const f32[12,12,3,3] ~1 v = const f32[12,12,1,1] ~2 a = Relu(x) ";
  for (std::string_view body :
       {"(y) W c = Conv(a, w) {pads=[1,1,1,1]} r = Relu(c) y = Add(r, a) }",
        "(y, z) W c = Conv(a, w) {pads=[1,1,1,1]} r = Relu(c) y = Add(r, a) z = Add(y, a) }",
        "(y, a) W c = Conv(a, v) r = Sigmoid(c) y = Add(r, a) }",
        "(y) W c = Conv(a, v) r = Relu(c) s = Add(r, a) t = Conv(s, v) u = Relu(t) y = Add(u, s) }",
        "(y) W c = Conv(a, v) r = Relu(c) s = Add(r, a) y = Mul(s, n) }"}) {
    std::string text = Cat(kHead, body);
    text.replace(text.find("W "), 2, kWeights);
    text.replace(text.find("H"), 1, "7");
    ExpectFast(CheckGraph(text, 3, 1e-4));
    CheckSameBits(text);
  }
}

TEST(Convolution, OnePoint) {
  for (int64_t inputs : {1, 3, 15, 16, 17, 40})
    for (int64_t outputs : {1, 16, 31, 48})
      for (std::string_view spatial : {"7", "8", "29", "3,3", "2,57", "9,11", "2,3,5"}) {
        const auto rank = Split(spatial, ',').size();
        const std::string ones = rank == 1 ? ",1" : rank == 2 ? ",1,1" : ",1,1,1";
        CheckGraph(Cat("graph g(x: f32[2,", inputs, ",", spatial, "]) -> (y) { w = const f32[",
                       outputs, ",", inputs, ones, "] ~1 b = const f32[", outputs,
                       "] ~2 c = Conv(x, w, b) y = Relu(c) }"),
                   static_cast<uint64_t>(inputs));
      }
  for (int64_t stride : {2, 3})
    CheckGraph(
        Cat("graph g(x: f32[2,24,13,10]) -> (y) { w = const f32[40,24,1,1] ~1 y = Conv(x, w) "
            "{strides=[",
            stride, ",", stride, "]} }"));
}

/// Chains whose layouts meet: 3x3 and 1x1, a concatenation of both, a pool, a residual.
TEST(Convolution, Chains) {
  for (int64_t channels : {16, 20})
    CheckGraph(
        Cat("graph g(x: f32[1,", channels, ",14,14]) -> (y) { w1 = const f32[", channels, ",",
            channels, ",3,3] ~1 w2 = const f32[32,", channels, ",1,1] ~2 w3 = const f32[32,",
            channels,
            ",3,3] ~3 a = Conv(x, w1) {pads=[1,1,1,1]} b = Relu(a) r = Add(b, x) "
            "c = Conv(r, w2) d = Conv(r, w3) {pads=[1,1,1,1]} e = Concat(c, d) {axis=1} "
            "f = Concat(e, e) {axis=-3} y = MaxPool(f) {kernel_shape=[2,2], strides=[2,2]} }"),
        2, kWinograd);
}

TEST(Convolution, SameBitsForAnyNumberOfThreads) {
  for (std::string_view text :
       {"graph g(x: f32[1,32,30,30]) -> (y) { w = const f32[80,32,3,3] ~1 y = Conv(x, w) "
        "{pads=[1,1,1,1]} }",
        "graph g(x: f32[1,96,7,7]) -> (y) { w = const f32[112,96,3,3] ~1 y = Conv(x, w) "
        "{pads=[1,1,1,1]} }",
        "graph g(x: f32[1,32,40,41]) -> (y) { w = const f32[80,32,1,1] ~1 y = Conv(x, w) }",
        "graph g(x: f32[1,96,7,7]) -> (y) { w = const f32[112,96,1,1] ~1 y = Conv(x, w) }"})
    CheckSameBits(text);
}

std::string Pointwise(int64_t images, int64_t inputs, int64_t outputs, int64_t size, int64_t stride,
                      std::string_view after) {
  // The first convolution has its result channels last, where the machine likes that.
  return Cat("graph g(i: f32[", images, ",3,", size, ",", size, "]) -> (y) { f = const f32[",
             inputs,
             ",3,3,3] ~3 s = Conv(i, f) {pads=[1,1,1,1], strides=[1,1]} x = Relu(s) w = const f32[",
             outputs, ",", inputs, ",1,1] ~1 b = const f32[", outputs,
             "] ~2 c = Conv(x, w, b) {strides=[", stride, ",", stride, "]} ", after, " }");
}

TEST(Convolution, PointwiseOfFarWeights) {
  for (int64_t size : {4, 7})
    for (int64_t stride : {1, 2})
      for (std::string_view after : {"y = Identity(c)", "y = Relu(c)", "y = HardSwish(c)"})
        CheckGraph(Pointwise(stride * stride, 512, 640, size, stride, after), 5, kWinograd);
}

TEST(Convolution, WindowsOfFarWeights) {
  for (std::string_view window :
       {"pads=[1,1,1,1], strides=[2,2]", "dilations=[2,1], pads=[2,0,3,1]"})
    CheckGraph(Cat("graph g(i: f32[2,3,9,8]) -> (y) { f = const f32[192,3,3,3] ~3 s = Conv(i, f) "
                   "{pads=[1,1,1,1], strides=[2,2]} x = Relu(s) w = const f32[256,192,3,3] ~1 b = "
                   "const f32[256] ~2 c = Conv(x, w, b) {",
                   window, "} y = Relu(c) }"),
               5, kWinograd);
}

TEST(Convolution, PointwiseByQuarters) {
  for (int64_t size : {10, 15})
    for (int64_t stride : {1, 2})
      for (std::string_view after : {"y = Identity(c)", "y = Relu(c)", "y = HardSwish(c)"})
        CheckGraph(Pointwise(stride * stride, 256, 272, size, stride, after), 5, kWinograd);
  CheckGraph(
      "graph g(i: f32[1,3,12,12]) -> (y) { f = const f32[256,3,3,3] ~3 s = Conv(i, f) "
      "{pads=[1,1,1,1]} x = Relu(s) w = const f32[256,256,1,1] ~1 c = Conv(x, w) a = Add(c, x) "
      "y = Relu(a) }",
      5, kWinograd);
}

TEST(Convolution, Gated) {
  for (std::string_view by : {"f32[2,48,1,1]", "f32[1,48,1,1]"})
    for (std::string_view after : {"y = Identity(c)", "y = Add(c, z)", "a = Add(c, z) y = Relu(a)"})
      for (std::string_view gated : {"Mul(x, s)", "Mul(s, x)"})
        CheckGraph(
            Cat("graph g(i: f32[2,3,9,7], s: ", by,
                ", z: f32[2,40,9,7]) -> (y) { f = const f32[48,3,3,3] ~3 t = Conv(i, f) "
                "{pads=[1,1,1,1]} x = Relu(t) g = ",
                gated, " w = const f32[40,48,1,1] ~1 b = const f32[40] ~2 c = Conv(g, w, b) ",
                after, " }"),
            5, kWinograd);
  // What is no gate, and a gate before what takes none.
  for (
      std::string_view graph :
      {"graph g(x: f32[2,8,5,5], s: f32[2,8,5,5]) -> (y) { g = Mul(x, s) w = const f32[8,8,1,1] ~1 "
       "y = Conv(g, w) }",
       "graph g(x: f32[2,8,5,5], s: f32[2,1,1,1]) -> (y) { g = Mul(x, s) w = const f32[8,8,1,1] ~1 "
       "y = Conv(g, w) }",
       "graph g(x: f32[2,8,5,5], s: f32[2,8,1,1]) -> (y) { g = Mul(x, s) w = const f32[8,8,3,3] ~1 "
       "y = Conv(g, w) }",
       "graph g(x: f32[2,8,5,5], s: f32[2,8,1,1]) -> (y) { g = Mul(x, s) w = const f32[8,8,1,1] ~1 "
       "y = Conv(g, w) {strides=[2,2], pads=[1,0,0,1]} }",
       "graph g(x: f32[2,8,5,5], s: f32[2,8,1,1]) -> (y, g) { g = Mul(x, s) w = const f32[8,8,1,1] "
       "~1 y = Conv(g, w) }",
       "graph g(x: f32[1,8,1,1], s: f32[1,8,1,1]) -> (y) { g = Mul(x, s) w = const f32[8,8,1,1] ~1 "
       "y = Conv(g, w) }"})
    CheckGraph(graph);
}

TEST(Convolution, PointwiseSameBitsForAnyNumberOfThreads) {
  CheckSameBits(Pointwise(1, 256, 272, 15, 1, "y = Relu(c)"));
  CheckSameBits(Pointwise(1, 512, 640, 7, 1, "y = Relu(c)"));
}

/// Weights that come with the run, as in training.
TEST(Convolution, WeightsOfTheRun) {
  for (std::string_view rest :
       {"w: f32[16,16,3,3]) -> (y) { y = Conv(x, w) {pads=[1,1,1,1]}",
        "w: f32[20,16,1,1], b: f32[20]) -> (y) { y = Conv(x, w, b) {strides=[2,2]}",
        "w: f32[32,8,3,3]) -> (y) { y = Conv(x, w) {group=2, dilations=[2,1], pads=[2,1,0,1]}",
        "w: f32[16,1,3,3]) -> (y) { c = Conv(x, w) {group=16} y = Relu(c)"})
    ExpectFast(CheckGraph(Cat("graph g(x: f32[3,16,9,10], ", rest, " }"), 5, 1e-4));
}

TEST(Convolution, GradientOfWeights) {
  for (const int64_t samples : {1, 3, 8, 12})
    for (std::string_view rest :
         {"16,9,10], d: f32[N,24,9,10]) -> (w) { w = infer::ConvWeightGradient(x, d) "
          "{kernel_shape=[3,3], pads=[1,1,1,1]}",
          "3,9,9], d: f32[N,20,4,4]) -> (w) { w = infer::ConvWeightGradient(x, d) "
          "{kernel_shape=[3,3], strides=[2,2]}",
          "16,8,8], d: f32[N,8,4,4]) -> (w) { w = infer::ConvWeightGradient(x, d) "
          "{kernel_shape=[1,1], strides=[2,2]}",
          "8,7,7], d: f32[N,8,7,7]) -> (w) { w = infer::ConvWeightGradient(x, d) "
          "{kernel_shape=[3,3], pads=[1,1,1,1], group=8}",
          "16,9], d: f32[N,16,7]) -> (w) { w = infer::ConvWeightGradient(x, d) "
          "{kernel_shape=[3], group=2}"}) {
      std::string text = Cat("graph g(x: f32[N,", rest, " }");
      for (size_t at = text.find("[N,"); at != std::string::npos; at = text.find("[N,", at))
        text.replace(at, 3, Cat("[", samples, ","));
      ExpectFast(CheckGraph(text, 5, 1e-4));
    }
}

TEST(Convolution, GradientOfWeightsHasTheSameBits) {
  CheckSameBits(
      "graph g(x: f32[32,16,16,16], d: f32[32,16,16,16]) -> (w) { "
      "w = infer::ConvWeightGradient(x, d) {kernel_shape=[3,3], pads=[1,1,1,1]} }");
}

/// oneDNN (2.6) gives all activations of one algorithm behind a layer the parameters of the first.
TEST(Convolution, TwoActivationsOfOneKind) {
  for (std::string_view after :
       {"a = LeakyRelu(c) {alpha=0.3} y = LeakyRelu(a) {alpha=0.5}",
        "a = LeakyRelu(c) {alpha=0.3} y = Relu(a)", "a = Elu(c) y = Elu(a) {alpha=0.2}",
        "a = LeakyRelu(c) {alpha=0.3} t = Tanh(a) y = LeakyRelu(t) {alpha=0.1}",
        "l = const f32[] {-0.25} m = const f32[] {0.5} h = const f32[] {1.5} k = Clip(c, l, h) "
        "s = Sigmoid(k) y = Clip(s, m, h)"}) {
    CheckGraph(Conv3x3(1, 2, 3, 5, 6, "0,0,0,0", after));
    CheckGraph(Conv3x3(1, 32, 32, 9, 9, "1,1,1,1", after), 1, kWinograd);
    for (std::string_view layer : {"ConvTranspose(x, w)", "Conv(x, w) {group=4}"})
      CheckGraph(Cat("graph g(x: f32[1,4,7,6]) -> (y) { w = const f32[4,1,3,3] ~1 c = ", layer, " ",
                     after, " }"));
    CheckGraph(Cat("graph g(x: f32[7,33]) -> (y) { w = const f32[33,40] ~1 c = MatMul(x, w) ",
                   after, " }"));
  }
}

/// Images of one column, as converters write one-dimensional convolutions, alone, in a chain, with
/// a residual and before what wants the plain order.
TEST(Convolution, OfAColumn) {
  for (const int64_t channels : {3, 8, 16, 24, 40})
    for (std::string_view attrs : {"", ", strides=[2,1]", ", pads=[2,0,1,0], dilations=[2,1]"}) {
      ExpectFast(
          CheckGraph(Cat("graph g(x: f32[2,", channels, ",37,1]) -> (y) { w = const f32[32,",
                         channels, ",5,1] ~1 b = const f32[32] ~2 c = Conv(x, w, b) {group=1",
                         attrs, "} y = LeakyRelu(c) }")));
      CheckGraph(Cat("graph g(x: f32[1,", channels, ",37,1]) -> (y, z) { w = const f32[32,",
                     channels, ",5,1] ~1 v = const f32[32,32,3,1] ~3 c = Conv(x, w) {group=1",
                     attrs,
                     "} r = Relu(c) d = Conv(r, v) {pads=[1,0,1,0]} s = Add(d, c) y = Relu(s) "
                     "z = Transpose(y) {perm=[0,2,3,1]} }"));
    }
  CheckGraph(
      "graph g(x: f32[2,12,19,1]) -> (y) { w = const f32[8,3,5,1] ~1 y = Conv(x, w) {group=4} }");
  CheckGraph(
      "graph g(x: f32[2,12,19,1]) -> (y) { w = const f32[12,8,4,1] ~1 y = ConvTranspose(x, w) "
      "{strides=[2,1], pads=[1,0,1,0]} }");
}

TEST(Convolution, WithWeightsOfTheRun) {
  CheckGraph(
      "graph g(x: f32[1,3,7,9], w: f32[5,3,3,3], b: f32[5]) -> (y) { c = Conv(x, w, b) "
      "{pads=[1,1,1,1]} y = Relu(c) }",
      1, 1e-5);
  CheckGraph("graph g(x: f32[2,4,7,9], w: f32[6,2,3,3]) -> (y) { y = Conv(x, w) {group=2} }", 1,
             1e-5);
  CheckGraph("graph g(x: f32[2,16,9], w: f32[16,1,3]) -> (y) { y = Conv(x, w) {group=16} }", 1,
             1e-5);
  CheckGraph(
      "graph g(x: f32[1,3,5,5], w: f32[3,4,2,2]) -> (y) { y = ConvTranspose(x, w) "
      "{strides=[2,2]} }",
      1, 1e-5);
  CheckGraph("graph g(x: f32[3,3,3]) -> (y) { y = Conv(x, x) }", 1, 1e-5);
}

TEST(Convolution, ShapesOnKernels) {
  for (int64_t c : {1, 3, 8, 15, 16, 17, 33})
    for (int64_t m : {1, 7, 16, 31, 64})
      ExpectFast(CheckGraph(Cat("graph g(x: f32[1,", c, ",7,9]) -> (y) { w = const f32[", m, ",", c,
                                ",3,3] ~1 b = const f32[", m,
                                "] ~2 c = Conv(x, w, b) {pads=[1,1,1,1]} y = Relu(c) }"),
                            1, 1e-5));
  for (std::string_view attrs : {"strides=[2,2]", "dilations=[2,2]", "pads=[0,1,2,0]",
                                 "auto_pad=\"SAME_UPPER\", strides=[2,2]",
                                 "auto_pad=\"SAME_LOWER\"", "pads=[2,2,2,2], strides=[3,2]"})
    ExpectFast(CheckGraph(
        Cat("graph g(x: f32[2,5,11,13]) -> (y) { w = const f32[6,5,3,3] ~1 y = Conv(x, w) {", attrs,
            "} }"),
        1, 1e-5));
  for (int64_t c : {1, 8, 17, 24})
    ExpectFast(CheckGraph(Cat("graph g(x: f32[1,", c, ",9,9]) -> (y) { w = const f32[", c,
                              ",1,3,3] ~1 y = Conv(x, w) {group=", c, ", pads=[1,1,1,1]} }"),
                          1, 1e-5));
  ExpectFast(CheckGraph(
      "graph g(x: f32[2,6,17]) -> (y) { w = const f32[4,3,5] ~1 y = Conv(x, w) {group=2} }", 1,
      1e-5));
  ExpectFast(CheckGraph(
      "graph g(x: f32[1,2,5,6,7]) -> (y) { w = const f32[3,2,2,3,3] ~1 y = Conv(x, w) }", 1, 1e-5));
}

TEST(Convolution, ActivationsAndResiduals) {
  for (std::string_view act : {"Relu(c)", "LeakyRelu(c) {alpha=0.1}", "Sigmoid(c)", "Tanh(c)",
                               "HardSwish(c)", "Elu(c)", "Clip(c, lo, hi)", "Gelu(c)", "Mish(c)"})
    ExpectFast(CheckGraph(
        Cat("graph g(x: f32[1,16,6,6]) -> (y) { lo = const f32[] {0} hi = const f32[] {6} "
            "w = const f32[16,16,3,3] ~1 c = Conv(x, w) {pads=[1,1,1,1]} y = ",
            act, " }"),
        1, 1e-5));
  // A residual, before and after an activation; used again; of the operand itself.
  const std::string_view head =
      "graph g(x: f32[1,20,6,6]) -> (y) { w = const f32[20,20,3,3] ~1 "
      "v = const f32[20,20,1,1] ~2 a = Conv(x, v) "
      "c = Conv(a, w) {pads=[1,1,1,1]} ";
  for (std::string_view tail :
       {"s = Add(c, x) y = Relu(s) }", "s = Add(x, c) t = Relu(s) y = Add(t, x) }",
        "r = Relu(c) y = Add(r, x) }", "y = Add(c, a) }", "s = Add(c, a) y = Mul(s, a) }",
        "d = Conv(c, v) y = Add(d, c) }", "s = Sigmoid(c) y = Mul(c, s) }",
        "p = GlobalAveragePool(c) s = Sigmoid(p) y = Mul(c, s) }"})
    ExpectFast(CheckGraph(Cat(head, tail), 1, 1e-5));
}

TEST(Convolution, Transposed) {
  for (std::string_view attrs :
       {"", "{strides=[2,2]}", "{strides=[2,2], pads=[1,1,1,1]}",
        "{strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]}", "{dilations=[2,2]}"})
    ExpectFast(CheckGraph(
        Cat("graph g(x: f32[1,6,5,7]) -> (y) { w = const f32[6,4,3,3] ~1 b = const f32[4] ~2"
            " y = ConvTranspose(x, w, b) ",
            attrs, " }"),
        1, 1e-5));
  ExpectFast(
      CheckGraph("graph g(x: f32[1,6,5,7]) -> (y) { w = const f32[6,2,3,3] ~1 "
                 "y = ConvTranspose(x, w) {group=2, strides=[2,1]} }",
                 1, 1e-5));
}

}  // namespace
}  // namespace infer
