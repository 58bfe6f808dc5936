/// Generated shapes at the boundaries of vectors and packs, for every kernel that a backend may
/// have, with NaN, infinities and empty tensors. The runner's backend says what it has.
#include <limits>

#include "tests/suites/suite.h"

namespace infer {
namespace {

/// CheckGraph; and on the cpu backend nothing of it on a reference kernel.
void CheckOnKernels(std::string_view text, const std::vector<Datum>& inputs,
                    double tolerance = 1e-5) {
  ExpectFast(CheckGraph(text, inputs, tolerance));
}
void CheckOnKernels(std::string_view text, uint64_t seed = 1, double tolerance = 1e-5) {
  ExpectFast(CheckGraph(text, seed, tolerance));
}

constexpr int64_t kSizes[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127};

TEST(Kernels, Unary) {
  for (std::string_view op : {"Abs",
                              "Neg",
                              "Relu",
                              "LeakyRelu {alpha=0.1}",
                              "Exp",
                              "Sigmoid",
                              "Tanh",
                              "Erf",
                              "Gelu",
                              "Gelu {approximate=\"tanh\"}",
                              "HardSwish",
                              "HardSigmoid",
                              "Elu",
                              "Softplus",
                              "Floor",
                              "Ceil",
                              "Mish",
                              "Sin",
                              "Cos",
                              "Sign",
                              "Round",
                              "Softsign",
                              "ThresholdedRelu {alpha=0.5}",
                              "Tan",
                              "Asin",
                              "Acos",
                              "Atan",
                              "Sinh",
                              "Cosh",
                              "Asinh",
                              "Acosh",
                              "Atanh"}) {
    const auto parts = Split(op, ' ');
    const std::string attrs =
        parts.size() > 1 ? std::string(op.substr(parts[0].size())) : std::string();
    for (int64_t n : kSizes)
      CheckOnKernels(Cat("graph g(x: f32[", n, ",3]) -> (y) { y = ", parts[0], "(x)", attrs, " }"),
                     1, 2e-6);
  }
}

TEST(Kernels, UnarySpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::Of<float>({6}, {std::nanf(""), inf, -inf, 0.0f, 1e-40f, -1e30f});
  for (std::string_view op :
       {"Abs",   "Neg",  "Relu", "Exp",  "Sigmoid", "Tanh",  "Erf",
        "Floor", "Sin",  "Cos",  "Log",  "Sign",    "Round", "ThresholdedRelu",
        "Tan",   "Asin", "Acos", "Atan", "Sinh",    "Cosh",  "Asinh",
        "Acosh", "Atanh"})
    CheckOnKernels(Cat("graph g(x: f32[6]) -> (y) { y = ", op, "(x) }"), {x}, 1e-6);
}

/// Angles from which the reduction would lose bits; bases of a logarithm from tiny to huge.
TEST(Kernels, UnaryWideRanges) {
  std::vector<float> x;
  for (float v = 1e-42f; v < 1e38f; v *= 7.3f) x.push_back(v);
  const auto n = static_cast<int64_t>(x.size());
  for (std::string_view op : {"Sin", "Cos", "Log", "Tan", "Asinh", "Acosh", "Atan", "Sinh"})
    CheckOnKernels(Cat("graph g(x: f32[", n, "]) -> (y) { y = ", op, "(x) }"),
                   {Tensor::Of<float>({n}, std::span<const float>(x))}, 2e-6);
}

/// Exponents with forms of their own, and ones without, known before the run and not.
TEST(Kernels, Powers) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x =
      Tensor::Of<float>({9}, {0.0f, -0.0f, 1.5f, -2.25f, 3e-5f, 700.0f, inf, -inf, 0.1f});
  for (float e :
       {0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 7.0f, 11.0f, 0.5f, 1.3f, -1.0f, -2.0f, -0.5f, -3.3f}) {
    CheckOnKernels(Cat("graph g(x: f32[9]) -> (y) { e = const f32[] {", e, "} y = Pow(x, e) }"),
                   {x}, 2e-6);
    CheckOnKernels("graph g(x: f32[9], e: f32[1]) -> (y) { y = Pow(x, e) }",
                   {x, Tensor::Of<float>({1}, {e})}, 2e-6);
  }
  CheckOnKernels("graph g(x: f32[9]) -> (y) { e = const i64[] {3} y = Pow(x, e) }", {x}, 2e-6);
  CheckOnKernels("graph g(x: f32[2,3,5], e: f32[3,1]) -> (y) { a = Abs(x) y = Pow(a, e) }", 1,
                 2e-6);
  CheckOnKernels("graph g(x: f32[2,1], e: f32[7]) -> (y) { a = Abs(x) y = Pow(a, e) }", 1, 2e-6);
}

/// Beside a large maximum the differences still count; a scalar is a row of one.
TEST(Kernels, SoftmaxOfLargeValues) {
  const Tensor x = Tensor::Of<float>({2, 3}, {8388609, 8388608, 8388607, 20, -20, 3});
  for (std::string_view op : {"Softmax", "LogSoftmax"}) {
    CheckGraph(Cat("graph g(x: f32[2,3]) -> (y) { y = ", op, "(x) }"), {x}, 1e-6);
    CheckGraph(Cat("graph g(x: f32[2,3]) -> (y) { y = ", op, "(x) {axis=0} }"), {x}, 1e-6);
    CheckGraph(Cat("graph g(x: f32[]) -> (y) { y = ", op, "(x) }"), {Datum(Tensor::Scalar(3.0f))},
               1e-6);
  }
}

TEST(Kernels, ChannelNorms) {
  for (std::string_view dims : {"2,6", "3,6,5", "1,6,4,7", "2,6,2,3,2"}) {
    const std::string head =
        Cat("graph g(x: f32[", dims, "]) -> (y) { s = const f32[6] ~1 b = const f32[6] ~2 ");
    CheckGraph(Cat(head,
                   "m = const f32[6] ~3 w = const f32[6] ~4 v = Abs(w) "
                   "y = BatchNormalization(x, s, b, m, v) }"),
               1, 1e-5);
    CheckGraph(Cat(head,
                   "m = const f32[6] ~3 v = Abs(s) "
                   "y = BatchNormalization(x, s, s, m, v) }"),
               1, 1e-5);
    for (int64_t groups : {1, 2, 3, 6})
      if (dims != "2,6" || groups < 6)
        CheckGraph(Cat(head, "y = GroupNormalization(x, s, b) {num_groups=", groups, "} }"), 1,
                   2e-5);
    if (dims != "2,6") CheckGraph(Cat(head, "y = InstanceNormalization(x, s, b) }"), 1, 2e-5);
  }
}

TEST(Kernels, AnyNumberOfOperands) {
  for (std::string_view op : {"Max", "Min", "Sum", "Mean"}) {
    CheckOnKernels(Cat("graph g(a: f32[2,3,5]) -> (y) { y = ", op, "(a) }"), 1, 1e-6);
    CheckOnKernels(Cat("graph g(a: f32[5], b: f32[3,1]) -> (y) { y = ", op, "(a, b) }"), 1, 1e-6);
    CheckOnKernels(Cat("graph g(a: f32[2,3,5], b: f32[5], c: f32[3,1], d: f32[]) -> (y) { y = ", op,
                       "(a, b, c, d) }"),
                   1, 1e-6);
  }
  for (std::string_view op : {"Max", "Min"})
    CheckOnKernels(
        Cat("graph g(a: i64[3,5], b: i64[5], c: i64[1]) -> (y) { y = ", op, "(a, b, c) }"), 1, 0);
}

TEST(Kernels, LinearResize) {
  for (std::string_view mode :
       {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"})
    for (std::string_view scales : {"1,1,2,2", "1,1,1.7,0.6", "1,1,3,1", "1,2,1.5,2.5", "1,1,1,4"})
      CheckGraph(Cat("graph g(x: f32[2,3,5,7]) -> (y) { s = const f32[4] {", scales,
                     "} y = Resize(x, _, s) {mode=\"linear\", coordinate_transformation_mode=\"",
                     mode, "\"} }"),
                 1, 2e-6);
  for (std::string_view sizes : {"2,3,1,1", "2,3,20,11", "2,3,5,7"})
    CheckGraph(Cat("graph g(x: f32[2,3,5,7]) -> (y) { s = const i64[4] {", sizes,
                   "} y = Resize(x, _, _, s) {mode=\"linear\"} }"),
               1, 2e-6);
}

TEST(Kernels, QuantizeAlone) {
  for (std::string_view type : {"u8", "i8", "u16", "i16"}) {
    CheckOnKernels(Cat("graph g(x: f32[2,3,67]) -> (y) { s = const f32[] {0.03} z = const ", type,
                       "[] {5} q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"),
                   1, 0);
    CheckOnKernels(Cat("graph g(x: f32[2,3,67], s: f32[]) -> (y) { a = Abs(s) z = const ", type,
                       "[] {3} q = QuantizeLinear(x, a, z) y = DequantizeLinear(q, a, z) }"),
                   1, 0);
    CheckOnKernels(
        Cat("graph g(x: f32[2,3,67]) -> (q, y) { s = const f32[3] {0.03,0.5,0.001} z = const ",
            type,
            "[3] {5,0,1} q = QuantizeLinear(x, s, z) {axis=1} "
            "y = DequantizeLinear(q, s, z) {axis=-2} }"),
        1, 0);
  }
  const float inf = std::numeric_limits<float>::infinity();
  CheckOnKernels(
      "graph g(x: f32[6]) -> (q) { s = const f32[] {0.5} z = const u16[] {7} "
      "q = QuantizeLinear(x, s, z) }",
      {Tensor::Of<float>({6}, {std::nanf(""), inf, -inf, 1e9f, 0.25f, 0.75f})}, 0);
}

TEST(Kernels, DynamicQuantize) {
  for (int64_t n : {1, 5, 64, 129})
    CheckOnKernels(
        Cat("graph g(x: f32[3,", n, "]) -> (y, s, z) { y, s, z = DynamicQuantizeLinear(x) }"),
        static_cast<uint64_t>(n), 0);
  CheckOnKernels("graph g(x: f32[3]) -> (y, s, z) { y, s, z = DynamicQuantizeLinear(x) }",
                 {Tensor::Of<float>({3}, {0.0f, 0.0f, 0.0f})}, 0);
  CheckOnKernels("graph g(x: f32[3]) -> (y, s, z) { y, s, z = DynamicQuantizeLinear(x) }",
                 {Tensor::Of<float>({3}, {-1.0f, -2.0f, -0.5f})}, 0);
}

TEST(Kernels, GeluWithBias) {
  for (std::string_view op : {"BiasGelu", "FastGelu"})
    for (int64_t n : {1, 5, 17, 65})
      CheckOnKernels(Cat("graph g(x: f32[3,2,", n, "], b: f32[", n,
                         "]) -> (y) { y = com.microsoft::", op, "(x, b) }"),
                     3, 2e-6);
}

TEST(Kernels, EmptyTensors) {
  for (std::string_view op : {"Relu", "Sigmoid", "Softmax"})
    CheckGraph(Cat("graph g(x: f32[0,3]) -> (y) { y = ", op, "(x) }"));
  CheckGraph("graph g(x: f32[0,3], b: f32[3]) -> (y) { y = Add(x, b) }");
  CheckGraph("graph g(x: f32[0,3]) -> (y) { w = const f32[3,5] ~1 y = MatMul(x, w) }");
}

TEST(Kernels, Binary) {
  const std::pair<std::string_view, std::string_view> shapes[] = {
      {"2,3,5", "2,3,5"}, {"2,3,5", "5"}, {"2,3,5", "3,1"},  {"3,1", "2,3,5"}, {"1", "17"},
      {"17", "1"},        {"", "4"},      {"2,1,5", "3,1"},  {"65", "65"},     {"2,3,5", "2,1,1"},
      {"1,33", "33"},     {"7,1", "1,7"}, {"2,3,5", "1,1,1"}};
  for (std::string_view op : {"Add", "Sub", "Mul", "Div", "Max", "Min"})
    for (const auto& [a, b] : shapes)
      CheckOnKernels(Cat("graph g(a: f32[", a, "], b: f32[", b, "]) -> (y) { y = ", op, "(a, b) }"),
                     5, 1e-6);
  CheckOnKernels("graph g(a: f32[33]) -> (y) { y = Add(a, a) }");
}

TEST(Kernels, MatrixProducts) {
  for (int64_t m : {1, 3, 16, 33})
    for (int64_t k : {1, 7, 64, 65})
      for (int64_t n : {1, 8, 17, 63})
        CheckOnKernels(Cat("graph g(a: f32[", m, ",", k, "]) -> (y) { b = const f32[", k, ",", n,
                           "] ~1 y = MatMul(a, b) }"),
                       1, 1e-5);
  const std::pair<std::string_view, std::string_view> shapes[] = {
      {"2,3,4,5", "2,3,5,6"}, {"2,3,4,5", "5,6"}, {"4,5", "2,5,6"},    {"5", "5,6"},
      {"4,5", "5"},           {"5", "5"},         {"2,1,4,5", "3,5,6"}};
  for (const auto& [a, b] : shapes)
    CheckOnKernels(Cat("graph g(a: f32[", a, "], b: f32[", b, "]) -> (y) { y = MatMul(a, b) }"));
  CheckOnKernels(
      "graph g(a: f32[6,5]) -> (y) { b = const f32[5,7] ~1 c = const f32[7] ~2 "
      "p = MatMul(a, b) s = Add(p, c) y = Gelu(s) }");
  CheckOnKernels(
      "graph g(a: f32[6,5], r: f32[6,7]) -> (y) { b = const f32[5,7] ~1 c = const f32[7] ~2 "
      "p = MatMul(a, b) s = Add(c, p) y = Add(s, r) }");
}

TEST(Kernels, Gemm) {
  for (int ta : {0, 1})
    for (int tb : {0, 1})
      for (std::string_view c : {"7", "1,7", "6,7", "6,1", "1", ""})
        for (std::string_view ab : {"", ", alpha=0.5, beta=2.0"})
          CheckGraph(Cat("graph g(a: f32[", ta ? "5,6" : "6,5", "]) -> (y) { b = const f32[",
                         tb ? "7,5" : "5,7", "] ~1 c = const f32[", c,
                         "] ~2 y = Gemm(a, b, c) {transA=", ta, ", transB=", tb, ab, "} }"));
}

TEST(Kernels, Pooling) {
  for (std::string_view op :
       {"MaxPool(x) {kernel_shape=[2,2], strides=[2,2]}",
        "MaxPool(x) {kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]}",
        "MaxPool(x) {kernel_shape=[3,3], strides=[2,2], ceil_mode=1}",
        "MaxPool(x) {kernel_shape=[2,2], dilations=[2,2]}",
        "AveragePool(x) {kernel_shape=[3,3], pads=[1,1,1,1]}",
        "AveragePool(x) {kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1}",
        "AveragePool(x) {kernel_shape=[3,3], strides=[2,2], ceil_mode=1}", "GlobalAveragePool(x)",
        "GlobalMaxPool(x)"})
    for (int64_t c : {1, 8, 17})
      CheckGraph(Cat("graph g(x: f32[2,", c, ",7,10]) -> (y) { y = ", op, " }"));
}

/// Planes as ONNX has them, one to three axes: windows that begin or end in the padding, strides
/// that leave numbers out, rows longer than what is combined at once.
TEST(Kernels, PoolingOfPlanes) {
  struct Case {
    std::string_view shape, windows;
  };
  const Case cases[] = {
      {"2,3,24,31", "kernel_shape=[2,2], auto_pad=\"SAME_UPPER\""},
      {"2,3,24,31", "kernel_shape=[3,2], strides=[3,2]"},
      {"1,2,9,40", "kernel_shape=[5,5], pads=[2,2,2,2]"},
      {"1,2,9,40", "kernel_shape=[2,3], strides=[1,4], pads=[0,1,1,0]"},
      {"1,2,9,40", "kernel_shape=[3,3], strides=[2,2], pads=[0,0,1,1], ceil_mode=1"},
      {"2,3,5000", "kernel_shape=[4], strides=[3], pads=[1,2]"},
      {"1,1,2100", "kernel_shape=[7]"},
      {"1,2,5,6,7", "kernel_shape=[2,3,3], strides=[1,2,1], pads=[0,1,1,1,1,0]"},
      {"1,5,3,70", "kernel_shape=[1,70]"},
      {"1,5,300", "kernel_shape=[100], strides=[90], pads=[3,5]"},
      {"1,5,13,13", "kernel_shape=[13,13], pads=[6,6,6,6]"},
      {"3,2,28,28", "kernel_shape=[3,3], dilations=[2,2], pads=[2,2,2,2]"},
      {"1,2,15,45", "kernel_shape=[2,3], dilations=[4,5], strides=[2,2], pads=[1,2,0,2]"},
      {"2,3,7,7", "kernel_shape=[7,7]"},
      {"1,3,11,3", "kernel_shape=[2,2], strides=[2,2], ceil_mode=1"},
      {"1,1,300,200", "kernel_shape=[5,5], pads=[2,2,2,2]"},
      {"1,2,3,33", "kernel_shape=[1,7], strides=[1,5], pads=[0,2,0,6], ceil_mode=1"},
      {"1,2,40,20,70", "kernel_shape=[3,2,2], strides=[2,2,2], pads=[1,0,0,1,0,0]"},
  };
  for (const auto& [shape, windows] : cases)
    for (std::string_view op : {"MaxPool", "AveragePool"}) {
      const std::string text =
          Cat("graph g(x: f32[", shape, "]) -> (y) { y = ", op, "(x) {", windows, "} }");
      const auto steps = CheckGraph(text);
      if (BackendUnderTest().name() == "cpu") ExpectFast(steps);
      CheckSameBits(text);
    }
  for (const auto& [shape, windows] : cases) {
    const auto steps = CheckGraph(Cat("graph g(x: f32[", shape, "]) -> (y) { y = AveragePool(x) {",
                                      windows, ", count_include_pad=1} }"));
    if (BackendUnderTest().name() == "cpu") ExpectFast(steps);
  }
  // NaN first in a window and later, infinities.
  for (const auto& [shape, windows] : cases) {
    const std::string text =
        Cat("graph g(x: f32[", shape, "]) -> (y) { y = MaxPool(x) {", windows, "} }");
    Tensor x(DType::kF32, DimsOf(*(*ParseGraph(text, SuiteOps())).inputs()[0]));
    for (int64_t i = 0; i < x.num_elements(); ++i)
      x.Set(i, i % 11 == 5 ? NAN : i % 7 < 3 ? -INFINITY : static_cast<double>(i * 37 % 101));
    if (BackendUnderTest().name() == "cpu") CheckGraph(text, std::vector<Datum>{x}, 0);
  }
  CheckGraph(
      "graph g(x: f32[1,3,9,40]) -> (y) { y = MaxPool(x) {kernel_shape=[3,3], "
      "dilations=[2,3], strides=[2,2], pads=[1,2,0,1]} }");
}

/// Operands that give one element, a few or many in turn.
TEST(Kernels, Joins) {
  for (std::string_view type : {"f32", "i64", "u8", "f16"})
    for (int64_t n : kSizes) {
      const auto check = [&](std::string_view operands) {
        CheckOnKernels(
            Cat("graph g(a: ", type, "[", n, ",1], b: ", type, "[", n, ",1], c: ", type, "[", n,
                ",3], d: ", type, "[", n, ",40]) -> (y) { y = Concat(", operands, ") {axis=1} }"),
            1, 0);
      };
      for (std::string_view operands :
           {"a, b", "a, b, a", "b, a, a, b", "a, b, b, a, b", "a, c", "c, b, c", "d, a", "d, d"})
        check(operands);
    }
}

/// Each map as a strided copy, runs, or a table; of several widths, with and without fill.
TEST(Kernels, Moves) {
  for (std::string_view type : {"f32", "i64", "u8", "bool", "f16"})
    for (std::string_view body :
         {"y = Transpose(x) {perm=[0,2,1]}", "y = Transpose(x) {perm=[2,1,0]}", "y = Transpose(x)",
          "s = const i64[2] {1,2} e = const i64[2] {4,17} a = const i64[2] {1,2} "
          "t = const i64[2] {1,3} y = Slice(x, s, e, a, t)",
          "s = const i64[1] {-1} e = const i64[1] {-99} a = const i64[1] {2} "
          "t = const i64[1] {-1} y = Slice(x, s, e, a, t)",
          "y = Concat(x, x) {axis=0}",
          "z = Transpose(x) {perm=[0,1,2]} y = Concat(x, z, x) {axis=-1}",
          "s = const i64[4] {4,2,5,19} y = Expand(x, s)", "s = const i64[3] {1,2,3} y = Tile(x, s)",
          "i = const i64[2,2] {0,-1,2,2} y = Gather(x, i) {axis=1}",
          "p = const i64[6] {0,1,2,0,0,3} y = Pad(x, p)",
          "p = const i64[6] {0,1,2,0,0,3} y = Pad(x, p) {mode=\"reflect\"}",
          "p = const i64[6] {0,-1,2,0,0,-3} y = Pad(x, p) {mode=\"edge\"}"})
      CheckOnKernels(Cat("graph g(x: ", type, "[2,5,19]) -> (y) { ", body, " }"), 1, 0);
  for (int64_t m : kSizes)
    CheckOnKernels(Cat("graph g(x: f32[3,", m, ",33]) -> (y) { y = Transpose(x) {perm=[0,2,1]} }"),
                   1, 0);
  CheckOnKernels(
      "graph g(x: f32[2,5,19]) -> (a, b) { s = const i64[3] {4,8,7} a, _, b = Split(x, s) {axis=2} "
      "}",
      1, 0);
  CheckOnKernels(
      "graph g(x: f32[1,8,3,5]) -> (y, z) { y = DepthToSpace(x) {blocksize=2} "
      "z = DepthToSpace(x) {blocksize=2, mode=\"CRD\"} }",
      1, 0);
  CheckOnKernels(
      "graph g(x: f32[1,2,3,5]) -> (y) { s = const f32[4] {1,1,2,3} y = Resize(x, _, s) "
      "{mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", "
      "nearest_mode=\"floor\"} }",
      1, 0);
  CheckOnKernels(
      "graph g(x: f32[5,7]) -> (y) { p = const i64[4] {1,0,2,3} v = const f32[] {2.5} "
      "y = Pad(x, p, v) }",
      1, 0);
}

/// Indices that only the run knows, good and bad.
TEST(Kernels, GatherByInput) {
  const Tensor x = Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  for (std::string_view axis : {"0", "1"}) {
    const std::string text =
        Cat("graph g(x: f32[2,3], i: i64[2]) -> (y) { y = Gather(x, i) {axis=", axis, "} }");
    const auto steps = CheckGraph(text, {x, Tensor::Int64s({1, -2})}, 0);
    EXPECT_EQ(steps.size(), 1u);
    Graph g = *ParseGraph(text, SuiteOps());
    auto program = BackendUnderTest().Compile(g, {});
    ASSERT_TRUE(program.ok());
    auto context = (*program)->NewContext();
    ASSERT_TRUE(context.ok());
    EXPECT_TRUE((*context)->BindInput(0, x).ok());
    EXPECT_TRUE((*context)->BindInput(1, Tensor::Int64s({0, 7})).ok());
    EXPECT_FALSE((*context)->Run({}).ok());
  }
}

/// Blocked operands: channel counts that fill blocks, and ones that do not.
TEST(Kernels, ConcatOfConvolutions) {
  for (int64_t c : {5, 16, 32})
    CheckOnKernels(
        Cat("graph g(x: f32[2,16,6,6]) -> (y) { v = const f32[16,16,1,1] ~1 "
            "w = const f32[",
            c, ",16,3,3] ~2 u = const f32[7,", c + 32,
            ",1,1] ~3 "
            "a = Conv(x, v) b = Conv(x, w) {pads=[1,1,1,1]} "
            "k = Concat(a, b, x) {axis=1} y = Conv(k, u) }"));
}

/// Shapes that hang on values which inference does not follow, but which are known.
TEST(Kernels, ShapesFromKnownValues) {
  CheckGraph(
      "graph g(x: f32[2,6]) -> (y) { s = Shape(x) f = Cast(s) {to=1} m = const f32[2] {1,4} "
      "l = Min(f, m) e = Cast(l) {to=7} b = const i64[2] {0,0} y = Slice(x, b, e) }",
      1, 0);
}

/// Weights that an exporter gives to several layers through Identity or Reshape. They are large
/// enough to stand on the host where a device reads them.
TEST(Kernels, ViewsOfConstants) {
  for (const std::string_view view :
       {"w = const f32[104,104,1,1] ~1 v = Identity(w)",
        "w = const f32[104,104] ~1 s = const i64[4] {104,104,1,1} v = Reshape(w, s)"})
    CheckGraph(Cat("graph g(x: f32[1,104,20,20]) -> (y) { ", view, R"(
      w1 = const f32[26,104,1,1] ~2 a = Conv(x, w1) w2 = const f32[104,26,1,1] ~3 b = Conv(a, w2)
      m = Mul(x, b) y = Conv(m, v) })"),
               1, 1e-4);
}

TEST(Kernels, ViewsAndOutputs) {
  CheckGraph("graph g(x: f32[2,6]) -> (y) { s = const i64[2] {3,4} y = Reshape(x, s) }");
  CheckGraph(
      "graph g(x: f32[2,6]) -> (y, z) { s = const i64[2] {3,4} r = Relu(x) "
      "y = Reshape(r, s) z = Abs(r) }");
  CheckGraph(
      "graph g(x: f32[2,6]) -> (y, z) { s = const i64[2] {3,4} r = Relu(x) "
      "y = Reshape(r, s) z = Flatten(r) }");
  CheckGraph("graph g(x: f32[2,6]) -> (y, z) { y = Flatten(x) z = Relu(y) }");
  CheckGraph("graph g(x: f32[2,6], s: i64[2]) -> (y) { r = Relu(x) t = Reshape(r, s) y = Abs(t) }",
             {[] {
                Random random(1);
                return RandomInput(DType::kF32, {2, 6}, random);
              }(),
              Tensor::Int64s({4, 3})});
}

}  // namespace
}  // namespace infer
