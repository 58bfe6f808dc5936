/// GridSample, Col2Im and LRN on kernels of their own: modes, paddings, positions far outside, odd
/// extents.
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

TEST(Sampling, Col2Im) {
  struct Case {
    Dims columns, image, block;
    std::string_view attrs = "";
  };
  const Case cases[] = {{{1, 8, 6}, {3, 4}, {2, 2}},
                        {{2, 27, 30}, {7, 8}, {3, 3}},
                        {{2, 18, 56}, {7, 8}, {3, 3}, "pads=[1,1,1,1]"},
                        {{1, 18, 16}, {8, 7}, {3, 3}, "strides=[2,2], pads=[1,1,0,1]"},
                        {{1, 36, 16}, {8, 8}, {2, 2}, "strides=[2,2]"},
                        {{1, 12, 12}, {7, 7}, {2, 3}, "dilations=[3,2], pads=[0,0,0,0]"},
                        {{1, 4, 9}, {33, 97}, {2, 2}, "strides=[1,32], dilations=[30,1]"},
                        {{3, 6, 17}, {19}, {3}},
                        {{3, 10, 6}, {20}, {5}, "strides=[3], pads=[1,0]"},
                        {{1, 16, 12}, {3, 4, 3}, {2, 2, 2}},
                        {{1, 5, 1}, {5}, {5}},
                        // Rows of many blocks, two, three, four and five apart.
                        {{2, 18, 169}, {25, 26}, {3, 3}, "strides=[2,2], pads=[1,0,1,1]"},
                        {{1, 16, 85}, {15, 51}, {4, 4}, "strides=[3,3], pads=[0,1,1,1]"},
                        {{1, 50, 48}, {14, 63}, {5, 5}, "strides=[4,4], pads=[1,1,1,1]"},
                        {{1, 49, 27}, {15, 47}, {7, 7}, "strides=[5,5], pads=[2,2,2,2]"},
                        // Tiles.
                        {{2, 27, 35}, {15, 21}, {3, 3}, "strides=[3,3]"},
                        {{1, 32, 35}, {20, 28}, {4, 4}, "strides=[4,4]"},
                        {{1, 12, 24}, {8, 6, 3}, {2, 3, 1}, "strides=[2,3,1]"},
                        {{2, 12, 9}, {54}, {6}, "strides=[6]"}};
  for (const Case& c : cases) {
    const auto axes = static_cast<int64_t>(c.image.size());
    ExpectFast(CheckGraph(Cat("graph g(x: f32", ToString(c.columns), ") -> (y) { i = const i64[",
                              axes, "] {", Join(c.image, ","), "} b = const i64[", axes, "] {",
                              Join(c.block, ","), "} y = Col2Im(x, i, b) {", c.attrs, "} }")));
  }
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
  CheckSameBits(
      "graph g(x: f32[4,27,900]) -> (y) { i = const i64[2] {30, 30} b = const i64[2] {3, 3} "
      "y = Col2Im(x, i, b) {pads=[1,1,1,1]} }");
}

/// Weighted sums along axes: linear and cubic, smaller and larger, with antialias and without what
/// lies outside, f32 and bytes, axes first and last.
TEST(Sampling, ResizeByTaps) {
  struct Case {
    std::string_view from, to;
  };
  for (const auto& [from, to] :
       {Case{"1,3,23,40", "1,3,11,20"}, Case{"1,5,9,7", "1,5,20,31"}, Case{"1,2,30,4", "1,2,7,9"},
        Case{"1,1,6,8,17", "1,1,9,5,6"}, Case{"1,8,33", "1,8,10"}, Case{"1,12,12,5", "1,5,7,5"},
        Case{"2,3,9,9", "2,3,1,1"}})
    for (std::string_view mode : {"linear", "cubic"})
      for (std::string_view more :
           {"antialias=1", "exclude_outside=1", "antialias=1, exclude_outside=1",
            "coordinate_transformation_mode=\"align_corners\", antialias=1",
            "coordinate_transformation_mode=\"asymmetric\", cubic_coeff_a=-0.5"})
        for (std::string_view type : {"f32", "u8", "i8"}) {
          const auto rank = 1 + std::count(from.begin(), from.end(), ',');
          const auto steps = CheckGraph(
              Cat("graph g(x: ", type, "[", from, "]) -> (y) { s = const i64[", rank, "] {", to,
                  "} y = Resize(x, _, _, s) {mode=\"", mode, "\", ", more, "} }"),
              4, type == "f32" ? 1e-5 : 0);
          ExpectFastOnCpu(steps);
        }
  // By scales, of the extents of the run, and with what is not finite.
  const std::string_view open =
      "graph g(x: f32[N,3,H,W]) -> (y) { s = const f32[4] {1,1,0.6,1.7} "
      "y = Resize(x, _, s) {mode=\"cubic\", antialias=1} }";
  Random random(9);
  for (const Dims& dims : {Dims{1, 3, 21, 19}, Dims{2, 3, 6, 33}, Dims{0, 3, 6, 33}}) {
    Tensor x = RandomInput(DType::kF32, dims, random);
    for (int64_t i = 0; i < x.num_elements(); i += 101) x.Set(i, i % 2 == 0 ? NAN : INFINITY);
    CheckGraph(open, std::vector<Datum>{x});
  }
  CheckSameBits(
      "graph g(x: f32[1,20,60,50]) -> (y) { s = const i64[4] {1,20,31,90} "
      "y = Resize(x, _, _, s) {mode=\"linear\", antialias=1} }");
}

/// Regions inside, outside, empty and turned, of several images; bins of many samples.
TEST(Sampling, RoiAlign) {
  const float corners[] = {0, 0,  9, 7, 2.5, 1.25, 6,  6.5, -4, -3, 3, 30, 5, 5, 5,  5,
                           8, 10, 1, 2, 40,  50,   60, 70,  0,  0,  1, 1,  0, 0, 20, 16};
  const std::vector<int64_t> of = {0, 1, 0, 1, 1, 0, 0, 1};
  for (int64_t channels : {1, 5, 64, 70})
    for (std::string_view mode : {"avg", "max"})
      for (std::string_view form : {"half_pixel", "output_half_pixel"})
        for (int64_t ratio : {0, 1, 2, 9}) {
          const std::string text =
              Cat("graph g(x: f32[2,", channels, ",12,15], r: f32[8,4], b: i64[8]) -> (y) { ",
                  "y = RoiAlign(x, r, b) {output_height=3, output_width=2, spatial_scale=0.75, ",
                  "sampling_ratio=", ratio, ", mode=\"", mode,
                  "\", coordinate_transformation_mode=\"", form, "\"} }");
          Random random(3);
          const Tensor x = RandomInput(DType::kF32, {2, channels, 12, 15}, random);
          const std::vector<Datum> inputs = {
              x, Tensor::Of<float>({8, 4}, std::span<const float>(corners)),
              Tensor::Of<int64_t>({8}, std::span<const int64_t>(of))};
          const auto steps = CheckGraph(text, inputs);
          ExpectFastOnCpu(steps);
        }
  const std::string_view open =
      "graph g(x: f32[N,3,H,W], r: f32[R,4], b: i64[R]) -> (y) { y = RoiAlign(x, r, b) "
      "{output_height=2, output_width=2, sampling_ratio=2} }";
  Graph g = *ParseGraph(open, SuiteOps());
  auto program = BackendUnderTest().Compile(g, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (int64_t image : {0, 1, -1})
    for (float corner : {3.0f, NAN}) {
      const float roi[] = {0, 0, corner, 4};
      Random random(3);
      const std::vector<Datum> inputs = {
          RandomInput(DType::kF32, {1, 3, 4, 3}, random),
          Tensor::Of<float>({1, 4}, std::span<const float>(roi)),
          Tensor::Of<int64_t>({1}, std::span<const int64_t>(&image, 1))};
      EXPECT_EQ(RunOnce(**program, inputs).ok(), image == 0 && corner == 3.0f);
      if (image == 0 && corner == 3.0f) CheckGraph(open, inputs);
    }
  // Behind a convolution, whose result may lie channels last.
  CheckGraph(
      "graph g(x: f32[1,8,10,10], f: f32[40,4]) -> (y) { w = const f32[16,8,3,3] ~1 "
      "c = Conv(x, w) {pads=[1,1,1,1]} z = const i64[1] {40} b = ConstantOfShape(z) "
      "{value=const i64[1] {0}} r = Abs(f) y = RoiAlign(c, r, b) {output_height=2, "
      "output_width=2, sampling_ratio=2} }");
}

}  // namespace
}  // namespace infer
