#include "quant/algorithm/adaround.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/quant/algorithm/correlated.h"

namespace infer {
namespace {

constexpr int64_t kDepth = 48, kRows = 20;

class AdaRoundTest : public testing::Test {
 protected:
  std::vector<float> values_ = NormalWeights(kRows * kDepth, 3);
  BlockWeights w_{values_, kRows, kDepth};
  Hessian h_ = MomentsOf(CorrelatedRows(400, kDepth, 8, 1), kDepth);
};

TEST_F(AdaRoundTest, ErrsLessThanNearestWithCodesNextToTheWeights) {
  for (const BlockGrid grid :
       {BlockGrid{4, 16, true}, BlockGrid{4, 16, false}, BlockGrid{8, 0, true, true}}) {
    const BlockQuantized nearest = QuantizeNearest(w_, grid);
    BlockQuantized q = nearest;
    AdaRound(w_, h_.sum, {}, q);
    EXPECT_EQ(q.scales, nearest.scales);
    EXPECT_EQ(q.zero_points, nearest.zero_points);
    EXPECT_LT(OutputError(w_, q, h_.sum), 0.6 * OutputError(w_, nearest, h_.sum)) << ToString(grid);
    for (size_t i = 0; i < q.codes.size(); ++i)
      EXPECT_LE(std::abs(int{q.codes[i]} - int{nearest.codes[i]}), 1) << i;
  }
}

TEST_F(AdaRoundTest, UncorrelatedInputsRoundToNearest) {
  std::vector<float> diagonal(static_cast<size_t>(kDepth * kDepth));
  for (int64_t k = 0; k < kDepth; ++k) diagonal[static_cast<size_t>(k * kDepth + k)] = 2;
  const BlockQuantized nearest = QuantizeNearest(w_, {4, 16, false});
  BlockQuantized q = nearest;
  AdaRound(w_, diagonal, {}, q);
  // Next to the middle of two codes either is as good.
  double most = 0;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t k = 0; k < kDepth; ++k) {
      const auto i = static_cast<size_t>(r * kDepth + k);
      if (q.codes[i] == nearest.codes[i]) continue;
      const auto s = static_cast<double>(q.scales[static_cast<size_t>(r * 3 + k / 16)]);
      const double code = static_cast<double>(values_[i]) / s;
      most = std::max(most, std::fabs(std::fabs(code - std::floor(code)) - 0.5));
    }
  }
  EXPECT_LT(most, 0.1);
}

/// Two inputs that are always equal: 0.3 + 0.49 is 0.79 of a step, which one step errs less from
/// than none, and which rounding each alone cannot see.
TEST(AdaRound, FindsTheKnownAnswer) {
  const std::vector<float> w = {0.3f, 0.49f, 7, -7},
                           h = {1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  BlockQuantized q = EmptyBlocks(1, 4, {4, 16, true, true});
  q.codes = {8, 8, 15, 1};
  AdaRound({w, 1, 4}, h, {}, q);
  EXPECT_EQ(int{q.codes[0]} + int{q.codes[1]}, 17);
  EXPECT_EQ(q.codes[2], 15);
  EXPECT_EQ(q.codes[3], 1);
}

TEST_F(AdaRoundTest, InputsThatAreAlwaysZeroAreHarmless) {
  std::vector<float> none(static_cast<size_t>(kDepth * kDepth));
  BlockQuantized q = QuantizeNearest(w_, {4, 16, true});
  AdaRound(w_, none, {}, q);
  for (const float x : DequantizeBlocks(q)) EXPECT_TRUE(std::isfinite(x));
}

}  // namespace
}  // namespace infer
