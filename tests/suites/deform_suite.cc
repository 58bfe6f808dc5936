/// DeformConv on a kernel of its own: groups, offsets beyond the image and no numbers, masks,
/// bands.
#include <limits>

#include "tests/suites/suite.h"

namespace infer {
namespace {

struct DeformCase {
  int64_t batch, channels, height, width, outputs, kernel, group, offset_group;
  Dims result;  ///< height, width
  std::string_view attrs = "";
  bool mask = true, bias = true;
};

std::string TextOf(const DeformCase& c) {
  const int64_t taps = c.kernel * c.kernel * c.offset_group;
  const std::string points = Cat(c.result[0], ",", c.result[1]);
  return Cat("graph g(x: f32", ToString(Dims{c.batch, c.channels, c.height, c.width}), ", o: f32[",
             c.batch, ",", 2 * taps, ",", points, "]", c.mask ? ", m: f32[" : "",
             c.mask ? Cat(c.batch, ",", taps, ",", points, "]") : "", ") -> (y) { w = const f32",
             ToString(Dims{c.outputs, c.channels / c.group, c.kernel, c.kernel}),
             " ~1 b = const f32[", c.outputs, "] ~2 y = DeformConv(x, w, o, ", c.bias ? "b" : "_",
             ", ", c.mask ? "m" : "_", ") {group=", c.group, ", offset_group=", c.offset_group,
             c.attrs.empty() ? "" : ", ", c.attrs, "} }");
}

const DeformCase kDeformCases[] = {
    {1, 4, 5, 6, 6, 2, 2, 2, {4, 5}},
    {2, 3, 7, 7, 5, 3, 1, 1, {5, 5}},
    {1, 16, 14, 14, 32, 3, 1, 1, {14, 14}, "pads=[1,1,1,1]"},
    {1, 6, 9, 8, 4, 3, 1, 3, {4, 4}, "strides=[2,2], pads=[0,1,0,1]"},
    {3, 12, 6, 5, 8, 3, 4, 2, {6, 5}, "pads=[2,2,2,2], dilations=[2,2]", false},
    {2, 12, 6, 5, 8, 1, 2, 4, {6, 5}, "", true, false},
    {1, 8, 1, 1, 8, 3, 1, 1, {1, 1}, "pads=[1,1,1,1]", false, false},
    {2, 64, 5, 5, 12, 3, 2, 2, {5, 5}, "pads=[1,1,1,1]"},
    // More than one band, the last of a few points; offsets of few channels and of many.
    {1, 40, 11, 23, 17, 3, 1, 4, {11, 23}, "pads=[1,1,1,1]"},
    {2, 72, 21, 23, 17, 3, 1, 1, {21, 23}, "pads=[1,1,1,1]"},
    {2, 40, 21, 23, 17, 3, 1, 2, {21, 23}, "pads=[1,1,1,1]"}};

TEST(Deform, Shapes) {
  uint64_t seed = 0;
  for (const DeformCase& c : kDeformCases) ExpectFast(CheckGraph(TextOf(c), ++seed));
}

/// Offsets of nothing, of halves, to the border and beyond it, of no number; masks of 0 and
/// infinity.
TEST(Deform, RareOffsets) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kOffsets[] = {0,     -0.0f,  1,    -1,    0.5f, -0.5f, 7,     -9,
                                1e12f, -1e12f, kInf, -kInf, NAN,  3e-9f, -3e-9f};
  const DeformCase& c = kDeformCases[2];
  Random random(5);
  const Tensor x = RandomInput(DType::kF32, {1, 16, 14, 14}, random);
  Tensor offsets(DType::kF32, {1, 18, 14, 14}), mask(DType::kF32, {1, 9, 14, 14});
  for (float& v : offsets.mutable_data<float>())
    v = random.Below(2) == 0 ? kOffsets[random.Below(std::size(kOffsets))]
                             : static_cast<float>(random.Uniform(-3, 3));
  for (float& v : mask.mutable_data<float>()) v = random.Below(3) == 0 ? 0.0f : 0.7f;
  ExpectFast(CheckGraph(TextOf(c), {x, offsets, mask}));
}

/// A point of weight 0 is not read, even where it is infinite.
TEST(Deform, BesideInfinity) {
  Tensor x = Tensor::Zeros(DType::kF32, {1, 2, 3, 3});
  for (float& v : x.mutable_data<float>()) v = 1;
  x.mutable_data<float>()[4] = std::numeric_limits<float>::infinity();
  const Tensor offsets = Tensor::Zeros(DType::kF32, {1, 2, 3, 3});
  ExpectFast(
      CheckGraph("graph g(x: f32[1,2,3,3], o: f32[1,2,3,3]) -> (y) { w = const f32[3,2,1,1] ~1 y = "
                 "DeformConv(x, w, o) }",
                 {x, offsets}));
}

/// Weights and bias that only the run knows.
TEST(Deform, WeightsOfTheRun) {
  ExpectFast(CheckGraph(
      "graph g(x: f32[1,32,9,9], o: f32[1,18,9,9], w: f32[5,32,3,3], b: f32[5]) -> (y) { "
      "y = DeformConv(x, w, o, b) {pads=[1,1,1,1]} }"));
}

TEST(Deform, SameBitsForAnyNumberOfThreads) {
  for (const DeformCase& c : kDeformCases) CheckSameBits(TextOf(c));
}

}  // namespace
}  // namespace infer
