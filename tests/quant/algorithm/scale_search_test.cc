#include "quant/algorithm/scale_search.h"

#include <gmock/gmock.h>

#include "tests/quant/algorithm/correlated.h"

namespace infer {
namespace {

constexpr int64_t kDepth = 64, kRows = 16;

class ScaleSearchTest : public testing::Test {
 protected:
  std::vector<float> values_ = NormalWeights(kRows * kDepth, 5);
  BlockWeights w_{values_, kRows, kDepth};
  HessianPair h_{MomentsOf(CorrelatedRows(300, kDepth, 6, 1), kDepth),
                 MomentsOf(CorrelatedRows(100, kDepth, 6, 2), kDepth)};
};

TEST_F(ScaleSearchTest, ClippingNeverErrsMoreInsideABlock) {
  // One block covers the depth, so the block's own part of H is all of it.
  for (const BlockGrid grid : {BlockGrid{4, 0, true}, BlockGrid{2, 0, false}}) {
    const BlockQuantized q = SearchClip(w_, grid, h_.fit.sum);
    for (int64_t r = 0; r < kRows; ++r) {
      const BlockWeights row{w_.row(r), 1, kDepth};
      const BlockQuantized one = SearchClip(row, grid, h_.fit.sum);
      EXPECT_LE(OutputError(row, one, h_.fit.sum),
                OutputError(row, QuantizeNearest(row, grid), h_.fit.sum) * (1 + 1e-5));
      EXPECT_EQ(one.scales[0], q.scales[static_cast<size_t>(r)]);
    }
    EXPECT_LT(OutputError(w_, q, h_.fit.sum),
              OutputError(w_, QuantizeNearest(w_, grid), h_.fit.sum));
  }
}

TEST_F(ScaleSearchTest, ClipsAWeightThatNoDataSee) {
  values_[3] = 0.8f;  // would take the whole range
  Hessian h = h_.fit;
  for (int64_t k = 0; k < kDepth; ++k)
    h.sum[static_cast<size_t>(3 * kDepth + k)] = h.sum[static_cast<size_t>(k * kDepth + 3)] = 0;
  const BlockGrid grid{4, 0, true};
  const BlockWeights row{w_.row(0), 1, kDepth};
  EXPECT_LT(OutputError(row, SearchClip(row, grid, h.sum), h.sum),
            0.6 * OutputError(row, QuantizeNearest(row, grid), h.sum));
}

BlockQuantized Nearest(const BlockWeights& w, const BlockGrid& grid, std::span<const float>,
                       int64_t) {
  return QuantizeNearest(w, grid);
}

TEST_F(ScaleSearchTest, ScalesFavourInputsThatMatter) {
  // Inputs in blocks with one that is a hundred times larger than its neighbours.
  Hessian h{kDepth, 1, 1000, std::vector<float>(static_cast<size_t>(kDepth * kDepth))};
  for (int64_t k = 0; k < kDepth; ++k)
    h.sum[static_cast<size_t>(k * kDepth + k)] = k % 16 == 0 ? 1e4f : 1.0f;
  const ScaleReader reader{w_, {4, 16, true}};
  const InputScales s = SearchInputScales({&reader, 1}, {h, h}, Nearest);
  ASSERT_EQ(s.scale.size(), static_cast<size_t>(kDepth));
  EXPECT_GT(s.scale[0], s.scale[1]);
  EXPECT_LT(s.error, 0.5 * s.plain_error);
  // The error told is that of the weights as they are then: W - Q(W s) / s under H.
  const std::vector<float> scaled = ScaleWeights(w_, s.scale);
  std::vector<float> back = DequantizeBlocks(QuantizeNearest({scaled, kRows, kDepth}, reader.grid));
  double error = 0;
  for (size_t i = 0; i < back.size(); ++i) {
    const size_t k = i % kDepth;
    const double d = values_[i] - double{back[i]} / s.scale[k];
    error += d * d * h.sum[k * kDepth + k];
  }
  EXPECT_NEAR(s.error / error, 1, 1e-3);
}

TEST_F(ScaleSearchTest, KeepsNothingThatDoesNotGain) {
  Hessian h{kDepth, 1, 1000, std::vector<float>(static_cast<size_t>(kDepth * kDepth))};
  for (int64_t k = 0; k < kDepth; ++k) h.sum[static_cast<size_t>(k * kDepth + k)] = 2;
  const ScaleReader reader{w_, {4, 16, true}};
  const InputScales s = SearchInputScales({&reader, 1}, {h, h}, Nearest);
  EXPECT_TRUE(s.scale.empty());  // equal inputs: every scale is 1
  EXPECT_EQ(s.error, s.plain_error);
}

}  // namespace
}  // namespace infer
