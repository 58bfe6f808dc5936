#include "quant/weight_only/block.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "lib/support/random.h"

namespace infer {
namespace {

using testing::Each;
using testing::ElementsAre;

std::vector<float> Normal(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> v(static_cast<size_t>(count));
  for (float& x : v) x = static_cast<float>(random.Normal());
  return v;
}

TEST(Block, SymmetricPutsTheLargestOnTheLowestCode) {
  const std::vector<float> w = {0.5f, -0.25f, 2.0f, 0.0f};
  const BlockGrid grid{4, 16, true};
  const BlockParams p = ChooseBlockParams(w, grid);
  EXPECT_FLOAT_EQ(p.scale, -0.25f);
  EXPECT_EQ(p.zero_point, 8);
  const BlockQuantized q = QuantizeNearest({w, 1, 4}, grid);
  EXPECT_THAT(q.codes, ElementsAre(6, 9, 0, 8));
  EXPECT_THAT(DequantizeBlocks(q), ElementsAre(0.5f, -0.25f, 2.0f, 0.0f));
  EXPECT_FLOAT_EQ(ChooseBlockParams(std::vector<float>{-2, 1.9f}, grid).scale, 0.25f);
  const BlockGrid positive{4, 16, true, true};
  EXPECT_FLOAT_EQ(ChooseBlockParams(w, positive).scale, 2.0f / 7);
  EXPECT_FLOAT_EQ(ChooseBlockParams(std::vector<float>{-2, 1.7f}, positive).scale, 0.25f);
}

TEST(Block, AsymmetricCoversZero) {
  const BlockGrid grid{4, 16, false};
  const BlockParams p = ChooseBlockParams(std::vector<float>{1, 1.5f, 3}, grid);
  EXPECT_FLOAT_EQ(p.scale, 0.2f);
  EXPECT_EQ(p.zero_point, 0);
  const BlockParams n = ChooseBlockParams(std::vector<float>{-3, -1}, grid);
  EXPECT_EQ(n.zero_point, 15);
  EXPECT_FLOAT_EQ(DecodeWeight(EncodeWeight(0, n, grid), n), 0);
}

TEST(Block, GridsStoreEveryBlockAlone) {
  // Row 0 is tiny in its first block and large in the short last one.
  std::vector<float> w = Normal(2 * 40, 1);
  for (size_t i = 0; i < 16; ++i) w[i] *= 1e-4f;
  for (const int bits : {2, 4, 8})
    for (const bool symmetric : {true, false})
      for (const int64_t block : {16, 32, 0}) {
        const BlockGrid grid{bits, block, symmetric};
        const BlockQuantized q = QuantizeNearest({w, 2, 40}, grid);
        ASSERT_EQ(q.scales.size(), static_cast<size_t>(2 * grid.BlocksOf(40)));
        const std::vector<float> real = DequantizeBlocks(q);
        for (size_t i = 0; i < w.size(); ++i) {
          const size_t b = i / 40 * static_cast<size_t>(q.blocks()) +
                           (block == 0 ? 0 : i % 40 / static_cast<size_t>(block));
          // Half a step, and one where the range's other end is clipped (symmetric) or the zero
          // point is rounded.
          EXPECT_LE(std::fabs(w[i] - real[i]), std::fabs(q.scales[b]) * 1.001f) << ToString(grid);
          EXPECT_LE(q.codes[i], grid.max_code());
        }
      }
}

TEST(Block, ZerosAndTinyWeightsStayFinite) {
  for (const float x : {0.0f, 1e-44f, -1e-38f, 3e38f}) {
    const std::vector<float> w(16, x);
    for (const bool symmetric : {true, false}) {
      const BlockQuantized q = QuantizeNearest({w, 1, 16}, {4, 16, symmetric});
      for (const float y : DequantizeBlocks(q)) {
        ASSERT_TRUE(std::isfinite(y));
        EXPECT_NEAR(y, x, std::max(1e-37f, std::fabs(x) * 1e-5f));
      }
    }
  }
  EXPECT_THAT(QuantizeNearest({std::vector<float>(16, 0.0f), 1, 16}, {2, 16, true}).codes, Each(2));
}

TEST(Block, ErrorsAreThoseOfTheWeights) {
  const std::vector<float> w = {1, 0.1f};
  BlockQuantized q = QuantizeNearest({w, 1, 2}, {2, 0, true});
  EXPECT_THAT(DequantizeBlocks(q), ElementsAre(1, 0));
  EXPECT_NEAR(SquaredError({w, 1, 2}, q), 0.01, 1e-6);
  EXPECT_NEAR(SquaredError({w, 1, 2}, q, std::vector<float>{1, 3}), 0.03, 1e-6);
  EXPECT_NEAR(RelativeError({w, 1, 2}, q), 0.1 / std::sqrt(1.01), 1e-6);
}

TEST(Block, RefusesWhatNoFormatStores) {
  EXPECT_TRUE(CheckGrid({2, 256, false}).ok());
  EXPECT_FALSE(CheckGrid({3, 64, true}).ok());
  EXPECT_FALSE(CheckGrid({4, 8, true}).ok());
  EXPECT_FALSE(CheckGrid({4, 512, true}).ok());
}

}  // namespace
}  // namespace infer
