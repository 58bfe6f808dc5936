/// GridSample and LRN on kernels of their own: modes, paddings, positions far outside, odd extents.
#include <limits>

#include "tests/suites/suite.h"

namespace infer {
namespace {

/// Positions from inside to far outside, on borders and on centres; NaN and infinities, too.
Tensor Positions(const Dims& dims, uint64_t seed) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kRare[] = {-1, 1, 0, 3.5f, -7, 1e12f, kInf, -kInf, NAN};
  Random random(seed);
  Tensor t(DType::kF32, dims);
  for (float& v : t.mutable_data<float>())
    v = random.Below(4) == 0 ? kRare[random.Below(std::size(kRare))]
                             : static_cast<float>(random.Uniform(-1.3, 1.3));
  return t;
}

TEST(Sampling, GridSample) {
  struct Case {
    Dims image, grid;
  };
  const Case cases[] = {{{2, 3, 5, 7}, {2, 4, 6, 2}},
                        {{1, 2, 1, 1}, {1, 3, 3, 2}},
                        {{1, 5, 9, 4}, {1, 13, 17, 2}},
                        {{2, 2, 6}, {2, 70, 1}},
                        {{1, 2, 3, 4, 5}, {1, 2, 3, 4, 3}}};
  uint64_t seed = 1;
  for (const Case& c : cases)
    for (std::string_view mode : {"nearest", "linear", "cubic"})
      for (std::string_view padding : {"zeros", "border", "reflection"})
        for (int align : {0, 1}) {
          Random random(++seed);
          const auto steps =
              CheckGraph(Cat("graph g(x: f32", ToString(c.image), ", p: f32", ToString(c.grid),
                             ") -> (y) { y = GridSample(x, p) {mode=\"", mode,
                             "\", padding_mode=\"", padding, "\", align_corners=", align, "} }"),
                         {RandomInput(DType::kF32, c.image, random), Positions(c.grid, seed)});
          // 64 taps of three axes are left to the reference.
          if (mode != "cubic" || c.image.size() < 5) ExpectFast(steps);
        }
}

/// A tap of weight 0 does not count, even where it meets an infinity.
TEST(Sampling, GridSampleBesideInfinity) {
  Tensor x = Tensor::Zeros(DType::kF32, {1, 1, 2, 2});
  x.mutable_data<float>()[3] = std::numeric_limits<float>::infinity();
  Tensor p(DType::kF32, {1, 1, 2, 2});
  for (float& v : p.mutable_data<float>()) v = -0.5f;  // the centre of the first element
  ExpectFast(CheckGraph("graph g(x: f32[1,1,2,2], p: f32[1,1,2,2]) -> (y) { y = GridSample(x, p) }",
                        {x, p}));
}

TEST(Sampling, Lrn) {
  for (const Dims& dims : {Dims{2, 7, 5, 9}, Dims{1, 3, 200}, Dims{3, 12}, Dims{1, 1, 4, 4}})
    for (int size : {1, 2, 5, 6, 31})
      for (std::string_view more : {"", ", beta=0.5, alpha=0.7, bias=2.0", ", alpha=3.0"})
        ExpectFast(CheckGraph(Cat("graph g(x: f32", ToString(dims),
                                  ") -> (y) { y = LRN(x) {size=", size, more, "} }")));
}

TEST(Sampling, SameBitsForAnyNumberOfThreads) {
  CheckSameBits("graph g(x: f32[2,5,30,31], p: f32[2,40,50,2]) -> (y) { y = GridSample(x, p) }");
  CheckSameBits("graph g(x: f32[2,24,30,31]) -> (y) { y = LRN(x) {size=5} }");
}

}  // namespace
}  // namespace infer
