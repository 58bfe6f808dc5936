#include "quant/scheme/quant_params.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "lib/support/random.h"

namespace infer {
namespace {

using testing::ElementsAre;

const QuantGrid kU8{DType::kU8, false};
const QuantGrid kS8{DType::kI8, false};
const QuantGrid kS8Symmetric{DType::kI8, true};

TEST(ChooseParams, KnownRanges) {
  QuantParams p = ChooseParams({-1, 4.1}, kU8);
  EXPECT_FLOAT_EQ(p.scale[0], 0.02f);
  EXPECT_EQ(p.zero_point[0], 50);
  p = ChooseParams({0, 2.55}, kU8);  // a ReLU'd tensor
  EXPECT_FLOAT_EQ(p.scale[0], 0.01f);
  EXPECT_EQ(p.zero_point[0], 0);
  p = ChooseParams({1, 2.55}, kU8);  // zero is put in
  EXPECT_FLOAT_EQ(p.scale[0], 0.01f);
  EXPECT_EQ(p.zero_point[0], 0);
  p = ChooseParams({-2.55, -1}, kU8);
  EXPECT_EQ(p.zero_point[0], 255);
  p = ChooseParams({0, 2.55}, kS8);
  EXPECT_EQ(p.zero_point[0], -128);
  p = ChooseParams({-3, 2.54}, kS8Symmetric);
  EXPECT_FLOAT_EQ(p.scale[0], 3.0f / 127);
  EXPECT_EQ(p.zero_point[0], 0);
  p = ChooseParams({-3, 1}, {DType::kU8, true});
  EXPECT_EQ(p.zero_point[0], 128);
  EXPECT_FLOAT_EQ(p.scale[0], 3.0f / 127);
}

TEST(ChooseParams, ScaleIsAlwaysPositiveFiniteAndNormal) {
  const double big = std::numeric_limits<float>::max();
  for (const Interval r : {Interval{0, 0}, Interval{0, 1e-45}, Interval{-1e-300, 0},
                           Interval{-big, big}, Interval{-big, 0}})
    for (const QuantGrid& g : {kU8, kS8, kS8Symmetric, QuantGrid{DType::kI16, false}}) {
      const QuantParams p = ChooseParams(r, g);
      EXPECT_TRUE(std::isnormal(p.scale[0]) && p.scale[0] > 0);
      EXPECT_GE(p.zero_point[0], IntegerMin(g.dtype));
      EXPECT_LE(p.zero_point[0], IntegerMax(g.dtype));
    }
}

/// Property: inside the range an element errs by at most half a step (and the rounding of the zero
/// point), zero by nothing.
TEST(ChooseParams, ErrorWithinTheRangeIsBounded) {
  Random random(11);
  for (int trial = 0; trial < 200; ++trial) {
    const double lo = random.Uniform(-5, 1), hi = lo + random.Uniform(0.01, 9);
    for (const QuantGrid& g : {kU8, kS8, kS8Symmetric}) {
      const QuantParams p = ChooseParams({lo, hi}, g);
      Tensor x(DType::kF32, {64});
      for (float& v : x.mutable_data<float>()) v = static_cast<float>(random.Uniform(lo, hi));
      x.Set(0, 0.0);
      const Tensor y = DequantizeTensor(QuantizeTensor(x, p), p);
      EXPECT_EQ(y.At(0), 0);
      for (int64_t i = 0; i < 64; ++i)
        EXPECT_LE(std::fabs(y.At(i) - x.At(i)), 1.0001 * static_cast<double>(p.scale[0]));
    }
  }
}

TEST(ChooseWeightParams, PerChannelOfEitherAxis) {
  const Tensor w = Tensor::Of<float>({2, 3}, {1, -2, 0, 0.5f, 4, 0});
  const QuantParams rows = ChooseWeightParams(w, 0, kS8Symmetric);
  EXPECT_THAT(rows.scale, ElementsAre(2.0f / 127, 4.0f / 127));
  const QuantParams columns = ChooseWeightParams(w, 1, kS8Symmetric);
  EXPECT_THAT(columns.scale, ElementsAre(1.0f / 127, 4.0f / 127, 4.0f / 127));  // zeros: largest
  const QuantParams whole = ChooseWeightParams(w, -1, kS8Symmetric);
  EXPECT_THAT(whole.scale, ElementsAre(4.0f / 127));
  const QuantParams seven_bits = ChooseWeightParams(w, -1, {DType::kI8, true, true});
  EXPECT_THAT(seven_bits.scale, ElementsAre(4.0f / 63));
  const double bound[] = {1.0, 0.0};
  EXPECT_THAT(ChooseWeightParams(w, 0, kS8Symmetric, bound).scale, ElementsAre(1.0f, 4.0f / 127));
  EXPECT_GT(ChooseWeightParams(Tensor::Zeros(DType::kF32, {3}), 0, kS8Symmetric).scale[0], 0);
}

TEST(QuantizeTensor, RoundsHalfToEvenSaturatesAndMapsNan) {
  const Tensor x = Tensor::Of<float>(
      {8}, {0.5f, 1.5f, 2.5f, -0.5f, 300, -300, std::numeric_limits<float>::quiet_NaN(),
            std::numeric_limits<float>::infinity()});
  const Tensor q = QuantizeTensor(x, {DType::kI8, -1, {1.0f}, {3}});
  EXPECT_THAT(q.ToInts(), ElementsAre(3, 5, 5, 3, 127, -128, 3, 127));
}

TEST(QuantizeTensor, PerAxis) {
  const Tensor x = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  const QuantParams p{DType::kI8, 1, {0.5f, 2.0f}, {0, 0}};
  const Tensor q = QuantizeTensor(x, p);
  EXPECT_THAT(q.ToInts(), ElementsAre(2, 1, 6, 2));
  EXPECT_THAT(DequantizeTensor(q, p).ToFloats(), ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace infer
