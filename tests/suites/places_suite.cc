/// Operators that say where elements stand: MaxPool with indices.
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
    t.Set(i, static_cast<double>(random.Below(5) - 2));
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

}  // namespace
}  // namespace infer
