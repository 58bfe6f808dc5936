/// Operators that say where elements stand: MaxPool with indices, TopK, moves.
#include "tests/suites/suite.h"

namespace infer {
namespace {

void ExpectPlaces(const std::vector<StepInfo>& steps) {
  if (BackendUnderTest().name() != "cpu" || steps.empty()) return;
  ExpectFast(steps);
  EXPECT_EQ(steps.back().kernel.substr(0, 10), "own:places") << steps.back().op;
}

/// Few values, so that maxima are equal.
Tensor Steps(const Dims& dims, uint64_t seed) {
  Tensor t(DType::kF32, dims);
  Random random(seed);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.Set(i, static_cast<double>(int64_t{random.Below(5)} - 2));
  return t;
}

TEST(Places, OfMaxima) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"2,3,40", "kernel_shape=[3], strides=[2], pads=[1,1]"},
      {"1,2,9,37", "kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]"},
      {"1,2,8,66", "kernel_shape=[2,2], strides=[2,2]"},
      {"1,2,8,66", "kernel_shape=[2,3], strides=[1,1], pads=[1,2,0,2]"},
      {"1,2,11,50", "kernel_shape=[3,3], strides=[3,3], ceil_mode=1"},
      {"2,1,13,40", "kernel_shape=[2,3], dilations=[2,3], strides=[1,2], pads=[1,2,1,2]"},
      {"1,1,7,700", "kernel_shape=[3,2], strides=[1,2]"},
      {"1,2,5,6,35", "kernel_shape=[3,2,3], strides=[2,1,1], pads=[1,1,1,0,1,1]"},
      {"1,2,1,1", "kernel_shape=[1,1]"}};
  for (const auto& [dims, attrs] : cases)
    for (int order : {0, 1}) {
      const std::string text = Cat("graph g(x: f32[", dims, "]) -> (y, i) { y, i = MaxPool(x) {",
                                   attrs, ", storage_order=", order, "} }");
      const Graph g = *ParseGraph(text, SuiteOps());
      Tensor x = Steps(DimsOf(*g.inputs()[0]), 3);
      ExpectPlaces(CheckGraph(text, std::vector<Datum>{x}, 0));
      // NaN that come first and later, and windows of -infinity.
      for (int64_t i = 0; i < x.num_elements(); i += 7) x.Set(i, NAN);
      for (int64_t i = 3; i < x.num_elements() / 2; ++i)
        if (i % 7 != 0) x.Set(i, -INFINITY);
      ExpectPlaces(CheckGraph(text, std::vector<Datum>{x}, 0));
    }
}

/// One of the results alone, extents of the run, other types, several lanes.
TEST(Places, OneOfTheResults) {
  const std::string pool = " y, i = MaxPool(x) {kernel_shape=[2,2], strides=[2,2]} ";
  ExpectPlaces(CheckGraph(Cat("graph g(x: f32[1,3,8,20]) -> (i) {", pool, "}"), 1, 0));
  CheckGraph(Cat("graph g(x: f32[1,3,H,W]) -> (y, i) {", pool, "}"), {Steps({1, 3, 6, 18}, 4)}, 0);
  CheckGraph(Cat("graph g(x: f32[N,3,6,6]) -> (y, i) {", pool, "}"), {Steps({0, 3, 6, 6}, 4)}, 0);
  for (std::string_view type : {"f16", "f64", "u8", "i8"})
    CheckGraph(Cat("graph g(x: ", type, "[1,2,8,10]) -> (y, i) {", pool, "}"), 1, 0);
  CheckGraph(Cat("graph g(x: f32[1,2,8,10]) -> (z) {", pool,
                 "z = MaxUnpool(y, i) {kernel_shape=[2,2], strides=[2,2]} }"),
             1, 0);
  CheckSameBits("graph g(x: f32[2,30,40,60]) -> (i) { y, i = MaxPool(x) {kernel_shape=[3,3]} }");
}

/// The grid of a constant size, of several maps, rows that end within a block; of one point.
TEST(Places, AffineGrids) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"2,2,3", "i64[4] {2, 1, 3, 4}"},     {"1,2,3", "i64[4] {1, 3, 56, 57}"},
      {"3,2,3", "i64[4] {3, 1, 1, 1}"},     {"1,3,4", "i64[5] {1, 3, 5, 6, 19}"},
      {"2,3,4", "i64[5] {2, 1, 1, 7, 40}"}, {"2,2,3", "i64[4] {2, 1, 130, 131}"}};
  for (const auto& [theta, size] : cases)
    for (int align : {0, 1}) {
      const std::string text = Cat("graph g(t: f32[", theta, "]) -> (y) { s = const ", size,
                                   " y = AffineGrid(t, s) {align_corners=", align, "} }");
      const auto steps = CheckGraph(text, 3);
      ExpectFast(steps);
      if (BackendUnderTest().name() == "cpu" && !steps.empty()) {
        EXPECT_EQ(steps.back().kernel, "own:rows");
      }
    }
  CheckSameBits(
      "graph g(t: f32[2,2,3]) -> (y) { s = const i64[4] {2, 1, 130, 131} y = AffineGrid(t, s) }");
}

void ExpectKeys(const std::vector<StepInfo>& steps) {
  if (BackendUnderTest().name() != "cpu" || steps.empty()) return;
  ExpectFast(steps);
  const std::string& kernel = steps.back().kernel;
  EXPECT_TRUE(kernel == "own:keys" || kernel.rfind("own:one:", 0) == 0) << kernel;
}

std::string TopKText(std::string_view type, std::string_view dims, int64_t k, int64_t axis,
                     bool largest) {
  return Cat("graph g(x: ", type, "[", dims, "]) -> (v, i) { k = const i64[1] {", k,
             "} v, i = TopK(x, k) {axis=", axis, ", largest=", largest ? 1 : 0, "} }");
}

/// Short lists and long ones, equal elements, zeros of both signs, NaN, infinities.
TEST(Places, OfTheBest) {
  const std::pair<std::string_view, int64_t> shapes[] = {
      {"3,70", 1},    {"3,70", 0}, {"2,1000", 1}, {"5,40,6", 1},
      {"2,3,33", -1}, {"1", 0},    {"2500", 0}};
  for (std::string_view type : {"f32", "i32", "i64"})
    for (const auto& [dims, axis] : shapes)
      for (bool largest : {true, false})
        for (int64_t k : {1, 2, 3, 16, 17, 40, 600, 2500}) {
          const std::string text = TopKText(type, dims, k, axis, largest);
          const auto g = ParseGraph(text, SuiteOps());
          if (!g.ok()) continue;  // K is larger than the axis
          const Dims extents = DimsOf(*g->inputs()[0]);
          for (int64_t values : {5, 100000}) {
            Tensor x(*ParseDType(type), extents);
            Random random(static_cast<uint64_t>(k + values));
            for (int64_t i = 0; i < x.num_elements(); ++i)
              x.Set(i, static_cast<double>(random.Below(values) - values / 2));
            if (type == "f32" && values > 5)
              for (int64_t i = 0; i < x.num_elements(); ++i)
                if (i % 9 < 5)
                  x.Set(i, std::initializer_list<double>{-0.0, 0.0, NAN, INFINITY, -INFINITY}
                               .begin()[i % 9]);
            ExpectKeys(CheckGraph(text, std::vector<Datum>{x}, 0));
          }
        }
  // Rising elements: each is better than all before it.
  Tensor rising(DType::kF32, {2, 3000});
  for (int64_t i = 0; i < 6000; ++i) rising.Set(i, static_cast<double>(i));
  for (int64_t k : {3, 200})
    ExpectKeys(CheckGraph(TopKText("f32", "2,3000", k, 1, true), std::vector<Datum>{rising}, 0));
}

/// One of the results alone, K of the run, other types, several lanes.
TEST(Places, OneResultOfTheBest) {
  const std::string head = "graph g(x: f32[3,90]) -> (", tail = ") { k = const i64[1] {20} ";
  for (std::string_view wanted : {"v", "i"})
    ExpectKeys(CheckGraph(Cat(head, wanted, tail, "v, i = TopK(x, k) }"), 1, 0));
  const std::string_view open = "graph g(x: f32[N,M], k: i64[1]) -> (v, i) { v, i = TopK(x, k) }";
  for (int64_t k : {0, 1, 30})
    CheckGraph(open, {Steps({4, 30}, 2), Tensor::Of<int64_t>({1}, std::span<const int64_t>(&k, 1))},
               0);
  for (std::string_view type : {"f16", "f64", "u8", "i8", "bf16"})
    CheckGraph(TopKText(type, "4,50", 7, 1, true), 1, 0);
  for (int64_t k : {5, 300}) CheckSameBits(TopKText("f32", "37,2000", k, 1, true));
}

/// Tiles of elements of each width, whole ones and what is left; runs backwards and repeated.
TEST(Places, OfMoves) {
  for (std::string_view type : {"u8", "f16", "f32", "i64"}) {
    for (std::string_view dims : {"16,16", "3,33,50", "2,48,64", "5,17", "40,3300", "1,130,1100"}) {
      const bool three = std::count(dims.begin(), dims.end(), ',') == 2;
      ExpectFast(
          CheckGraph(Cat("graph g(x: ", type, "[", dims,
                         "]) -> (y) { y = Transpose(x) {perm=", three ? "[0,2,1]" : "[1,0]", "} }"),
                     1, 0));
    }
    for (std::string_view mode : {"reflect", "edge", "wrap"})
      for (std::string_view pads : {"0,20,0,20", "1,15,1,0", "0,0,0,24", "1,1,1,1"})
        ExpectFast(CheckGraph(Cat("graph g(x: ", type, "[4,25]) -> (y) { p = const i64[4] {", pads,
                                  "} y = Pad(x, p) {mode=\"", mode, "\"} }"),
                              1, 0));
  }
}

}  // namespace
}  // namespace infer
