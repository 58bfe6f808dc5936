/// The place of the largest and least element along any axis, and Softmax along axes that are not
/// the last: lists that fill and miss vectors, equal elements, NaN, channels that lie last.
#include <limits>

#include "tests/suites/suite.h"

namespace infer {
namespace {

/// Few different values, so that many are equal; `nans` of them NaN.
Tensor FewValues(const Dims& dims, uint64_t seed, int nans) {
  Random random(seed);
  Tensor t(DType::kF32, dims);
  for (float& v : t.mutable_data<float>()) v = static_cast<float>(random.Below(9)) - 4.0f;
  const int64_t n = t.num_elements();
  for (int i = 0; i < nans; ++i)
    t.mutable_data<float>()[static_cast<size_t>(random.Below(static_cast<uint32_t>(n)))] =
        i % 2 ? std::nanf("") : -std::nanf("");
  return t;
}

TEST(Select, ArgOfEveryAxis) {
  for (const Dims& dims : {Dims{3, 5}, Dims{2, 7, 40}, Dims{2, 21, 9, 13}, Dims{1, 3, 200},
                           Dims{4, 131}, Dims{2, 300, 17}, Dims{1000}, Dims{2, 3, 65, 1}})
    for (int64_t axis = 0; axis < std::ssize(dims); ++axis)
      for (std::string_view op : {"ArgMax", "ArgMin"})
        for (int last : {0, 1})
          for (int nans : {0, 2, 40}) {
            const auto steps = CheckGraph(
                Cat("graph g(x: f32", ToString(dims), ") -> (y) { y = ", op, "(x) {axis=", axis,
                    ", keepdims=", last, ", select_last_index=", last, "} }"),
                {FewValues(dims, static_cast<uint64_t>(axis + 1), nans)}, 0);
            ExpectFast(steps);
          }
}

TEST(Select, HardmaxOfEveryAxis) {
  for (const Dims& dims : {Dims{3, 5}, Dims{2, 7, 40}, Dims{70, 21}, Dims{2, 9, 133}, Dims{1, 300},
                           Dims{200}, Dims{2, 3, 65, 1}})
    for (int64_t axis = 0; axis < std::ssize(dims); ++axis)
      for (int nans : {0, 2, 40})
        ExpectFast(CheckGraph(
            Cat("graph g(x: f32", ToString(dims), ") -> (y) { y = Hardmax(x) {axis=", axis, "} }"),
            {FewValues(dims, static_cast<uint64_t>(axis + 1), nans)}, 0));
  CheckSameBits("graph g(x: f32[2,50,3000]) -> (y) { y = Hardmax(x) {axis=1} }");
}

TEST(Select, ArgOfChannels) {
  for (int64_t channels : {2, 21, 70, 200})
    CheckGraph(Cat("graph g(i: f32[2,3,9,11]) -> (y) { f = const f32[", channels,
                   ",3,1,1] ~3 c = Conv(i, f) r = Relu(c) y = ArgMax(r) {axis=1} }"));
}

TEST(Select, ArgOfInfinities) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  Tensor t = Tensor::Zeros(DType::kF32, {2, 150});
  t.mutable_data<float>()[70] = kInf;
  t.mutable_data<float>()[140] = kInf;
  for (size_t i = 150; i < 300; ++i) t.mutable_data<float>()[i] = -kInf;
  for (std::string_view op : {"ArgMax", "ArgMin"})
    for (int last : {0, 1})
      CheckGraph(Cat("graph g(x: f32[2,150]) -> (y) { y = ", op,
                     "(x) {axis=1, select_last_index=", last, "} }"),
                 {t}, 0);
}

TEST(Select, SoftmaxOfInnerAxes) {
  for (std::string_view op : {"Softmax", "LogSoftmax"})
    for (const Dims& dims : {Dims{1, 8, 3}, Dims{2, 197, 10}, Dims{1, 33, 64}, Dims{2, 17, 100},
                             Dims{1, 1, 40}, Dims{3, 5, 7, 11}})
      ExpectFast(CheckGraph(
          Cat("graph g(x: f32", ToString(dims), ") -> (y) { y = ", op, "(x) {axis=1} }")));
}

TEST(Select, SameBitsForAnyNumberOfThreads) {
  for (std::string_view text : {"graph g(x: f32[2,50,3000]) -> (y) { y = Softmax(x) {axis=1} }",
                                "graph g(x: f32[2,50,3000]) -> (y) { y = ArgMax(x) {axis=1} }"})
    CheckSameBits(text);
}

}  // namespace
}  // namespace infer
