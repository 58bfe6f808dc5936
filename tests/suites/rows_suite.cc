/// Softmax, LayerNormalization and reductions over rows and columns of many lengths.
#include <cmath>
#include <limits>

#include "tests/suites/suite.h"

namespace infer {
namespace {

constexpr int64_t kRowLengths[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127};
constexpr std::string_view kReductions[] = {
    "ReduceMean", "ReduceSum", "ReduceProd",      "ReduceMax",    "ReduceMin",
    "ReduceL1",   "ReduceL2",  "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"};

TEST(Kernels, Rows) {
  for (int64_t n : kRowLengths) {
    CheckGraph(Cat("graph g(x: f32[3,", n, "]) -> (y) { y = Softmax(x) }"), 1, 1e-6);
    CheckGraph(Cat("graph g(x: f32[3,", n, "]) -> (y) { y = LogSoftmax(x) }"), 1, 2e-6);
    CheckGraph(Cat("graph g(x: f32[2,3,", n, "]) -> (y) { s = const f32[", n, "] ~1 b = const f32[",
                   n, "] ~2 y = LayerNormalization(x, s, b) }"),
               1, 1e-5);
    for (std::string_view op : kReductions)
      CheckGraph(Cat("graph g(x: f32[3,", n, "]) -> (y) { a = const i64[1] {-1} y = ", op,
                     "(x, a) {keepdims=0} }"),
                 1, 1e-6);
  }
  CheckGraph("graph g(x: f32[2,5,3,4]) -> (y) { a = const i64[2] {2,3} y = ReduceMean(x, a) }");
  CheckGraph("graph g(x: f32[2,5,3,4]) -> (y) { a = const i64[1] {1} y = ReduceMean(x, a) }");
  // Short rows, which are reduced side by side: blocks of them and a rest, NaN and infinities.
  for (std::string_view op : kReductions)
    for (const int64_t n : {2, 7, 32, 33}) {
      const std::string text =
          Cat("graph g(x: f32[141,", n, "]) -> (y) { a = const i64[1] {-1} y = ", op, "(x, a) }");
      CheckSameBits(text);
      Random random(4);
      Tensor x = RandomInput(DType::kF32, {141, n}, random);
      x.Set(5 * n + 1, NAN);
      x.Set(70 * n, INFINITY);
      ExpectFast(CheckGraph(text, std::vector<Datum>{x}));
    }
  for (int64_t n : kRowLengths) {
    const std::string open = Cat("graph g(x: f32[2,5,", n, "]) -> (y) { a = const i64[1] {1} y = ");
    for (std::string_view op : {"Softmax(x) {axis=1}", "LogSoftmax(x) {axis=1}"})
      CheckGraph(Cat(open, op, " }"), 1, 2e-6);
    for (std::string_view op : kReductions)
      CheckGraph(Cat(open, op, "(x, a) {keepdims=0} }"), 1, 2e-6);
  }
  CheckGraph("graph g(x: f32[2,5,3,4]) -> (y) { a = const i64[2] {0,2} y = ReduceMean(x, a) }");
}

/// Many rows, of which short ones are computed together: a rest of them, too, and a NaN in one.
TEST(Kernels, ManyShortRows) {
  for (std::string_view op : {"Softmax", "LogSoftmax"})
    for (const int64_t n : {1, 2, 3, 10, 15, 16, 17, 21, 49}) {
      const std::string text = Cat("graph g(x: f32[1413,", n, "]) -> (y) { y = ", op, "(x) }");
      CheckSameBits(text);
      Random random(4);
      Tensor x = RandomInput(DType::kF32, {1413, n}, random);
      x.Set(18 * n, NAN);
      x.Set(40 * n, -INFINITY);
      ExpectFast(CheckGraph(text, std::vector<Datum>{x}, 2e-6));
    }
}

/// Columns that fill and miss vectors, walked one by one or as one list: a NaN in one, infinities
/// in others, one that holds nothing but -infinity.
TEST(Kernels, SoftmaxOfColumns) {
  for (std::string_view op : {"Softmax", "LogSoftmax"})
    for (const int64_t columns : {1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 24, 33, 49, 63, 65, 80})
      for (const int64_t n : {2, 37, 130}) {
        const std::string text =
            Cat("graph g(x: f32[2,", n, ",", columns, "]) -> (y) { y = ", op, "(x) {axis=1} }");
        Random random(4);
        Tensor x = RandomInput(DType::kF32, {2, n, columns}, random);
        CheckSameBits(text);
        ExpectFast(CheckGraph(text, std::vector<Datum>{x}, 2e-6));
        const int64_t second = n * columns;  // the other list has numbers only
        x.Set(second + columns - 1, NAN);
        x.Set(second + (n - 1) * columns, -INFINITY);
        for (int64_t r = 0; columns > 2 && r < n; ++r) x.Set(second + r * columns + 1, -INFINITY);
        ExpectFast(CheckGraph(text, std::vector<Datum>{x}, 2e-6));
      }
}

/// Columns that fill and miss vectors, a NaN in one and infinities in others.
TEST(Kernels, ReducedColumns) {
  for (std::string_view op : kReductions)
    for (const int64_t columns : {1, 3, 15, 16, 17, 28, 33, 64, 65, 131}) {
      const std::string text = Cat("graph g(x: f32[2,37,", columns,
                                   "]) -> (y) { a = const i64[1] {1} y = ", op, "(x, a) }");
      Random random(4);
      Tensor x = RandomInput(DType::kF32, {2, 37, columns}, random);
      // The logarithm of a sum near 0 says nothing of the kernel: terms of one sign.
      if (op == "ReduceLogSum")
        for (int64_t i = 0; i < NumElements(x.dims()); ++i) x.Set(i, std::abs(x.At(i)));
      x.Set(3 * columns + columns / 2, NAN);
      x.Set((37 + 5) * columns, INFINITY);
      ExpectFast(CheckGraph(text, std::vector<Datum>{x}, 2e-6));
    }
  CheckSameBits("graph g(x: f32[3,40,3000]) -> (y) { a = const i64[1] {1} y = ReduceSum(x, a) }");
  CheckSameBits("graph g(x: f32[3,40,3000]) -> (y) { a = const i64[1] {1} y = ReduceMax(x, a) }");
}

/// Whole planes that lie plainly, one and many, of any extent.
TEST(Kernels, WholePlanes) {
  for (std::string_view op : {"GlobalAveragePool", "GlobalMaxPool"})
    for (std::string_view dims : {"1,1,1", "2,3,7,7", "1,64,28,28", "1,5,3,4,5", "3,70,100"})
      ExpectFast(
          CheckGraph(Cat("graph g(x: f32[", dims, "]) -> (y) { y = ", op, "(x) }"), 1, 1e-6));
  CheckSameBits("graph g(x: f32[4,70,31,31]) -> (y) { y = GlobalAveragePool(x) }");
}

/// The operand dies here, so that a kernel may write over it.
TEST(Kernels, RowsInPlace) {
  for (int64_t n : {3, 17, 255, 257, 700})
    for (std::string_view op : {"Softmax(t)", "LogSoftmax(t)", "LayerNormalization(t, s)"})
      ExpectFast(CheckGraph(Cat("graph g(x: f32[3,", n, "]) -> (y) { s = const f32[", n,
                                "] ~1 t = Neg(x) y = ", op, " }"),
                            1, 1e-5));
}

/// Sums of exponentials that overflow one by one, and rows that are infinite as a whole.
TEST(Kernels, LogSumExpOfLargeNumbers) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const int64_t n : {5, 40, 700})
    for (const std::string_view axis : {"1", "0"}) {
      const std::string text = Cat("graph g(x: f32[", n, ",", n, "]) -> (y) { a = const i64[1] {",
                                   axis, "} y = ReduceLogSumExp(x, a) }");
      Random random(6);
      Tensor x = RandomInput(DType::kF32, {n, n}, random);
      for (int64_t i = 0; i < n; ++i) x.Set(i * n + i, 300);
      for (int64_t i = 0; i < n; ++i) x.Set(i * n + 1, -inf), x.Set(n + i, -inf);
      x.Set(3 * n + 2, inf);
      ExpectFast(CheckGraph(text, std::vector<Datum>{x}));
    }
}

/// Lines along every axis, of both norms; a line of zeros, and one with a NaN.
TEST(Kernels, LpNormalization) {
  for (int64_t n : kRowLengths)
    for (int p : {1, 2})
      for (int axis : {0, 1, -1}) {
        Random random(7);
        Tensor x = RandomInput(DType::kF32, {3, n, 70}, random);
        for (int64_t i = 0; i < n; ++i) x.Set(i * 70 + 5, 0);
        for (int64_t i = 0; i < 70; ++i) x.Set(n * 70 + i, 0);
        x.Set(2 * n * 70 + 9, NAN);
        ExpectFast(CheckGraph(Cat("graph g(x: f32[3,", n, ",70]) -> (y) { y = LpNormalization(x) ",
                                  "{axis=", axis, ", p=", p, "} }"),
                              std::vector<Datum>{x}, 1e-6));
      }
}

struct ExtremeCase {
  std::string_view results, nodes;
};
constexpr ExtremeCase kExtremeCases[] = {
    {"y", "y = LayerNormalization(x, s, b)"},
    {"y", "y = LayerNormalization(x, s)"},
    {"y", "y = LayerNormalization(x, s, b) {epsilon=0.0}"},
    {"y, mean", "y, mean = LayerNormalization(x, s, b)"},
    {"mean, inverse", "_, mean, inverse = LayerNormalization(x, s, b) {epsilon=0.0}"},
    {"y, mean, inverse", "y, mean, inverse = LayerNormalization(x, s) {epsilon=0.0}"},
    {"y", "y = RMSNormalization(x, s)"},
    {"y", "y = RMSNormalization(x, s) {epsilon=0.0}"},
    {"y", "y = LpNormalization(x) {p=1}"},
    {"y", "y = LpNormalization(x) {p=2}"},
    {"y", "y = LpNormalization(x) {p=2, axis=0}"},
    {"y", "h = Mul(x, half) t = Add(h, h) y = LayerNormalization(t, s, b) {epsilon=0.0}"},
    {"y", "h = Mul(x, half) t = Add(h, h) y = RMSNormalization(t, s) {epsilon=0.0}"},
    {"y, t", "h = Mul(x, half) y, t = infer::SkipLayerNormalization(h, h, s, b) {epsilon=0.0}"},
    {"y, t", "h = Mul(x, half) y, t = infer::SkipRMSNormalization(h, h, s) {epsilon=0.0}"},
    {"y", "c = Reshape(x, shape) y = InstanceNormalization(c, s2, b2) {epsilon=0.0}"},
    {"y", "c = Reshape(x, shape) y = GroupNormalization(c, s2, b2) {num_groups=1, epsilon=0.0}"}};

/// Normalizations of what only double holds: squares and differences beyond f32, factors below its
/// normal numbers, and the other way round. Statistics are results, too.
TEST(Kernels, NormalizationsOfExtremeNumbers) {
  if (BackendUnderTest().name() == "vulkan") return;  // f32 throughout
  for (const ExtremeCase& c : kExtremeCases)
    for (const int64_t n : {2, 18, 300})
      for (const double most : {3e38, 1e37, 1e-30, 1e-42}) {
        const std::string text =
            Cat("graph g(x: f32[3,", n, "]) -> (", c.results, ") { s = const f32[", n,
                "] ~1 b = const f32[", n, "] ~2 half = const f32[] {0.5} s2 = const f32[2] ~3 ",
                "b2 = const f32[2] ~4 shape = const i64[3] {3, 2, ", n / 2, "} ", c.nodes, " }");
        Random random(8);
        Tensor x = RandomInput(DType::kF32, {3, n}, random);
        double top = 0;
        for (int64_t i = 0; i < 3 * n; ++i) top = std::max(top, std::abs(x.At(i)));
        for (int64_t i = 0; i < 3 * n; ++i) x.Set(i, x.At(i) / top * most);
        // A row in which differences overflow.
        for (int64_t i = 0; i < n; ++i) x.Set(n + i, i % 3 ? most : -most);
        ExpectFastOnCpu(CheckGraph(text, std::vector<Datum>{x}, 2e-6));
      }
}

}  // namespace
}  // namespace infer
