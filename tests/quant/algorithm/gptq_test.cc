#include "quant/algorithm/gptq.h"

#include <gmock/gmock.h>

#include "quant/algorithm/code_rounder.h"
#include "tests/quant/algorithm/correlated.h"

namespace infer {
namespace {

constexpr int64_t kGptqDepth = 96, kGptqRows = 24;

class GptqTest : public testing::Test {
 protected:
  std::vector<float> values_ = NormalWeights(kGptqRows * kGptqDepth, 3);
  BlockWeights w_{values_, kGptqRows, kGptqDepth};
  std::vector<float> data_ = CorrelatedRows(400, kGptqDepth, 12, 1);
  Hessian h_ = MomentsOf(data_, kGptqDepth);
};

TEST_F(GptqTest, OutputErrorIsTheSquaredErrorOfTheOutputs) {
  const BlockQuantized q = QuantizeNearest(w_, {4, 32, true});
  const std::vector<float> back = DequantizeBlocks(q);
  double plain = 0, energy = 0;
  for (int64_t n = 0; n < h_.rows; ++n) {
    for (int64_t r = 0; r < kGptqRows; ++r) {
      double y = 0, d = 0;
      for (int64_t k = 0; k < kGptqDepth; ++k) {
        const double x = data_[static_cast<size_t>(n * kGptqDepth + k)];
        const auto i = static_cast<size_t>(r * kGptqDepth + k);
        y += x * values_[i];
        d += x * (double{values_[i]} - back[i]);
      }
      plain += d * d;
      energy += y * y;
    }
  }
  EXPECT_NEAR(OutputError(w_, q, h_.sum) / plain, 1, 1e-3);
  EXPECT_NEAR(OutputEnergy(w_, h_.sum) / energy, 1, 1e-3);
}

TEST_F(GptqTest, ErrsLessThanNearestWithTheSameScales) {
  for (const BlockGrid grid : {BlockGrid{4, 32, true}, BlockGrid{4, 32, false},
                               BlockGrid{2, 16, false}, BlockGrid{8, 0, true}}) {
    for (const bool act_order : {false, true}) {
      const BlockQuantized nearest = QuantizeNearest(w_, grid);
      BlockQuantized q = nearest;
      GptqOptions options;
      options.act_order = act_order;
      ASSERT_TRUE(GptqRound(w_, h_.sum, h_.rows, options, q).ok());
      EXPECT_EQ(q.scales, nearest.scales);
      EXPECT_LT(OutputError(w_, q, h_.sum), 0.6 * OutputError(w_, nearest, h_.sum))
          << ToString(grid) << " " << act_order;
    }
  }
}

TEST_F(GptqTest, BlockedUpdatesAreTheUnblockedOnes) {
  // The sums are taken in another order, which may move a value across the middle of two codes.
  std::vector<double> errors;
  for (const int64_t block : {int64_t{1}, int64_t{7}, int64_t{1000}}) {
    BlockQuantized q = QuantizeNearest(w_, {4, 32, true});
    GptqOptions options;
    options.update_block = block;
    ASSERT_TRUE(GptqRound(w_, h_.sum, h_.rows, options, q).ok());
    errors.push_back(OutputError(w_, q, h_.sum));
  }
  EXPECT_NEAR(errors[1] / errors[0], 1, 0.02);
  EXPECT_NEAR(errors[2] / errors[0], 1, 0.02);
}

TEST_F(GptqTest, UncorrelatedInputsRoundToNearest) {
  std::vector<float> diagonal(static_cast<size_t>(kGptqDepth * kGptqDepth));
  for (int64_t k = 0; k < kGptqDepth; ++k)
    diagonal[static_cast<size_t>(k * kGptqDepth + k)] = static_cast<float>(k + 1);
  const BlockQuantized nearest = QuantizeNearest(w_, {4, 32, false});
  BlockQuantized q = nearest;
  ASSERT_TRUE(GptqRound(w_, diagonal, 1000, {}, q).ok());
  EXPECT_EQ(q.codes, nearest.codes);
}

TEST_F(GptqTest, Refuses) {
  BlockQuantized q = QuantizeNearest(w_, {4, 32, true});
  const BlockQuantized before = q;
  const Status few = GptqRound(w_, h_.sum, kGptqDepth - 1, {}, q);
  EXPECT_EQ(few.code(), Code::kInvalidArgument);
  EXPECT_THAT(few.message(), testing::HasSubstr("too few rows"));
  std::vector<float> indefinite = h_.sum;
  indefinite[0] = -1e9f;
  EXPECT_EQ(GptqRound(w_, indefinite, h_.rows, {}, q).code(), Code::kUnsupported);
  EXPECT_EQ(q.codes, before.codes);
}

TEST_F(GptqTest, InputsThatAreAlwaysZeroAreHarmless) {
  Hessian h = h_;
  for (int64_t k = 0; k < kGptqDepth; ++k)
    h.sum[static_cast<size_t>(5 * kGptqDepth + k)] =
        h.sum[static_cast<size_t>(k * kGptqDepth + 5)] = 0;
  BlockQuantized q = QuantizeNearest(w_, {4, 32, true});
  const double nearest = OutputError(w_, q, h.sum);
  ASSERT_TRUE(GptqRound(w_, h.sum, h.rows, {}, q).ok());
  RefineCodes(w_, h.sum, {}, q);
  EXPECT_LT(OutputError(w_, q, h.sum), nearest);
}

TEST_F(GptqTest, WeightsOfZeroKeepTheZeroPoint) {
  for (size_t i = 0; i < values_.size(); i += 3) values_[i] = 0;
  for (const CodeRounder& rounder : CodeRounders())
    for (const BlockGrid grid : {BlockGrid{8, 0, true, true}, BlockGrid{4, 32, false}}) {
      BlockQuantized q = QuantizeNearest(w_, grid);
      ASSERT_TRUE((grid.block == 0 ? rounder.round(w_, h_.sum, h_.rows, 1, q)
                                   : rounder.round_blocks(w_, h_.sum, h_.rows, q))
                      .ok());
      const std::vector<float> back = DequantizeBlocks(q);
      for (size_t i = 0; i < values_.size(); i += 3) ASSERT_EQ(back[i], 0) << rounder.name;
      EXPECT_LT(OutputError(w_, q, h_.sum), OutputError(w_, QuantizeNearest(w_, grid), h_.sum));
    }
}

TEST_F(GptqTest, RefiningNeverRaisesTheError) {
  for (const BlockGrid grid : {BlockGrid{4, 32, true}, BlockGrid{2, 16, false}}) {
    BlockQuantized q = QuantizeNearest(w_, grid);
    double last = OutputError(w_, q, h_.sum);
    const double nearest = last;
    for (int i = 0; i < 4; ++i) {
      RefineCodes(w_, h_.sum, {.sweeps = 1}, q);
      const double error = OutputError(w_, q, h_.sum);
      EXPECT_LE(error, last);
      last = error;
    }
    EXPECT_LT(last, 0.7 * nearest) << ToString(grid);
  }
}

}  // namespace
}  // namespace infer
