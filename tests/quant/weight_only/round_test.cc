#include "quant/weight_only/round.h"

#include <gmock/gmock.h>

#include <cmath>

#include "lib/support/random.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Weights as trained layers have them: normal, with a few large ones.
std::vector<float> Weights(int64_t rows, int64_t depth, uint64_t seed) {
  Random random(seed);
  std::vector<float> w(static_cast<size_t>(rows * depth));
  for (float& x : w) {
    x = static_cast<float>(random.Normal() * 0.02);
    if (random.Below(100) == 0) x *= 4;
  }
  return w;
}

struct Case {
  BlockGrid grid;
  double most_mse, most_hqq;  ///< of the nearest error, in the method's own measure
};

const Case kCases[] = {
    {{2, 64, true}, 0.75, 0.9},       {{2, 64, false}, 0.7, 0.8},   {{4, 64, true}, 0.93, 0.985},
    {{4, 64, false}, 0.93, 0.97},     {{4, 32, true}, 0.93, 0.985}, {{4, 0, true}, 0.8, 0.93},
    {{4, 64, true, true}, 0.95, 1.0}, {{8, 128, true}, 0.97, 0.99}, {{8, 128, false}, 0.93, 0.99},
};

TEST(Round, BetterThanNearestInItsOwnMeasure) {
  const std::vector<float> w = Weights(24, 272, 3);
  for (const Case& c : kCases) {
    SCOPED_TRACE(ToString(c.grid));
    const RoundRequest request{"w", {}, {w, 24, 272}, c.grid};
    const RoundedWeights nearest = *NearestRounder()(request);
    const RoundedWeights mse = *MseRounder()(request), hqq = *HqqRounder()(request);
    EXPECT_EQ(nearest.error, nearest.nearest_error);
    EXPECT_NEAR(mse.nearest_error, nearest.error, 1e-6 * nearest.error);
    EXPECT_NEAR(mse.error, SquaredError(request.w, mse.q), 1e-6 * nearest.error);
    EXPECT_LE(mse.error, mse.nearest_error * c.most_mse);
    EXPECT_LE(hqq.error, hqq.nearest_error * c.most_hqq);
    for (const RoundedWeights* r : {&nearest, &mse, &hqq})
      for (const float s : r->q.scales) EXPECT_TRUE(s > 0 || !c.grid.positive);
  }
}

TEST(Round, NoBlockIsWorseThanNearest) {
  const std::vector<float> w = Weights(1, 16 * 200, 5);
  for (const bool symmetric : {true, false})
    for (const int bits : {2, 4, 8}) {
      const BlockGrid grid{bits, 16, symmetric};
      const RoundedWeights mse = *MseRounder()({"w", {}, {w, 1, 3200}, grid});
      for (size_t b = 0; b < 200; ++b) {
        const std::span<const float> block = std::span(w).subspan(b * 16, 16);
        const BlockQuantized plain = QuantizeNearest({block, 1, 16}, grid);
        const std::vector<float> got = DequantizeBlocks(mse.q);
        double error = 0;
        for (size_t i = 0; i < 16; ++i) {
          const double d = static_cast<double>(block[i] - got[b * 16 + i]);
          error += d * d;
        }
        EXPECT_LE(error, SquaredError({block, 1, 16}, plain) * (1 + 1e-5) + 1e-20);
      }
    }
}

TEST(Round, WhatTheGridHoldsStaysExact) {
  std::vector<float> w;
  for (int i = 0; i < 64; ++i) w.push_back(0.5f * static_cast<float>(i % 16 - 8));
  for (const std::string& name : RounderNames()) {
    const RoundedWeights r = *(*RounderNamed(name))({"w", {}, {w, 1, 64}, {4, 64, true}});
    EXPECT_EQ(DequantizeBlocks(r.q), w) << name;
    EXPECT_EQ(r.method, "nearest");
  }
}

TEST(Round, ImportanceMovesTheErrorElsewhere) {
  const std::vector<float> w = Weights(1, 64, 11);
  std::vector<float> importance(64, 1e-4f);
  for (size_t i = 0; i < 8; ++i) importance[i] = 1;
  const BlockGrid grid{2, 64, true};
  const auto error = [&](const BlockParams& p) {
    double sum = 0;
    for (size_t i = 0; i < 8; ++i) {
      const double d = static_cast<double>(w[i] - DecodeWeight(EncodeWeight(w[i], p, grid), p));
      sum += d * d;
    }
    return sum;
  };
  EXPECT_LT(error(SearchBlockParams(w, grid, importance)), error(SearchBlockParams(w, grid)));
}

TEST(Round, ExtremesStayFinite) {
  for (const float x : {0.0f, 1e-44f, 1e-38f, 3e38f})
    for (const std::string& name : RounderNames())
      for (const bool symmetric : {true, false}) {
        std::vector<float> w(32, x);
        for (size_t i = 0; i < 32; i += 3) w[i] = -x / 3;
        const RoundedWeights r = *(*RounderNamed(name))({"w", {}, {w, 1, 32}, {4, 32, symmetric}});
        for (const float y : DequantizeBlocks(r.q)) EXPECT_TRUE(std::isfinite(y)) << name << x;
      }
}

TEST(Round, UnknownNamesAreErrors) { EXPECT_FALSE(RounderNamed("magic").ok()); }

}  // namespace
}  // namespace infer
