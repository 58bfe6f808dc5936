#include "quant/prune/factors.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/quant/algorithm/correlated.h"

namespace infer {
namespace {

/// Moments of one group over rows of X; what the layer makes of them is by `dense`.
LayerMoments MomentsOver(const WeightPlane& plane, std::span<const float> dense,
                         const std::vector<float>& x) {
  const int64_t d = plane.depth(), r = plane.rows, count = static_cast<int64_t>(x.size()) / d;
  LayerMoments m;
  m.rows = count;
  m.h = MomentsOf(x, d).sum;
  m.squares.resize(static_cast<size_t>(d));
  m.sum_x.resize(static_cast<size_t>(d));
  m.sum_y.resize(static_cast<size_t>(r));
  std::vector<double> c(static_cast<size_t>(d * r));
  for (int64_t i = 0; i < count; ++i) {
    const float* row = x.data() + i * d;
    for (int64_t k = 0; k < d; ++k) {
      m.sum_x[static_cast<size_t>(k)] += row[k];
      m.squares[static_cast<size_t>(k)] += double{row[k]} * row[k];
    }
    for (int64_t o = 0; o < r; ++o) {
      double y = 0;
      for (int64_t k = 0; k < d; ++k) y += double{row[k]} * dense[static_cast<size_t>(o * d + k)];
      m.energy += y * y;
      m.sum_y[static_cast<size_t>(o)] += y;
      for (int64_t k = 0; k < d; ++k) c[static_cast<size_t>(k * r + o)] += row[k] * y;
    }
  }
  m.c.assign(c.begin(), c.end());
  return m;
}

double ErrorAt(const WeightPlane& plane, std::span<const float> dense, const LayerMoments& fit,
               const FactorOptions& options, int64_t rank, const LayerMoments& judge) {
  const auto made = LayerFactors::Make(plane, dense, fit, options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (!made.ok()) return -1;
  return PrunedError(plane, ProductOf(plane, made->At(rank)), {&judge, 1}) / judge.energy;
}

class FactorsTest : public testing::TestWithParam<std::pair<int64_t, int64_t>> {
 protected:
  WeightPlane plane_{1, GetParam().first, GetParam().second, 1};
  std::vector<float> dense_ = NormalWeights(plane_.size(), 3);
  std::vector<float> x_ = CorrelatedRows(1500, plane_.depth(), 6, 11);
  std::vector<float> other_ = CorrelatedRows(800, plane_.depth(), 6, 12);
  int64_t full_ = std::min(plane_.rows, plane_.depth());
};

TEST_P(FactorsTest, TheWeightedErrorIsBelowThatOfThePlainDecomposition) {
  const LayerMoments fit = MomentsOver(plane_, dense_, x_);
  const LayerMoments judge = MomentsOver(plane_, dense_, other_);
  for (const int64_t rank : {full_ / 8, full_ / 4, full_ / 2}) {
    const double plain =
        ErrorAt(plane_, dense_, fit, {.outputs = false, .weighted = false}, rank, judge);
    const double weighted = ErrorAt(plane_, dense_, fit, {.outputs = false}, rank, judge);
    const double fitted = ErrorAt(plane_, dense_, fit, {.outputs = true}, rank, judge);
    // Six causes and a little noise: most of what the plain one keeps is never seen.
    EXPECT_LT(weighted, 0.5 * plain) << rank;
    EXPECT_LT(fitted, 0.5 * plain) << rank;
  }
}

/// Features of random images: all but equal, so that moments about the mean are mostly rounding.
TEST_P(FactorsTest, InputsThatHardlyVaryAreFactorised) {
  std::vector<float> x(static_cast<size_t>(16 * plane_.depth()));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = 1000 + 1e-3F * x_[i] + static_cast<float>(i % static_cast<size_t>(plane_.depth()));
  const LayerMoments few = MomentsOver(plane_, dense_, x);
  const auto made = FactorLayer({plane_, dense_, full_ / 4, true}, {{few}, {few}});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(std::isfinite(made->layer.error));
}

TEST_P(FactorsTest, AtFullRankTheProductIsTheWeights) {
  const LayerMoments fit = MomentsOver(plane_, dense_, x_);
  for (const bool outputs : {false, true})
    for (const bool shift : {false, true}) {
      const auto made = LayerFactors::Make(plane_, dense_, fit, {0.01, outputs, shift});
      ASSERT_TRUE(made.ok());
      ASSERT_EQ(made->full_rank(), full_);
      const PrunedMatrix p = ProductOf(plane_, made->At(full_));
      for (size_t i = 0; i < dense_.size(); ++i)
        ASSERT_NEAR(p.weights[i], dense_[i], 2e-5) << i << " " << outputs << shift;
      for (const double s : p.shift) EXPECT_NEAR(s, 0, 1e-3);
    }
}

TEST_P(FactorsTest, SingularValuesTellTheErrorOfTheWhitenedWeights) {
  // tr((V - W) H (V - W)^T), H damped, is the sum of the squares that were cut off.
  const LayerMoments fit = MomentsOver(plane_, dense_, x_);
  const auto made = LayerFactors::Make(plane_, dense_, fit, {1e-9, false, false});
  ASSERT_TRUE(made.ok());
  const int64_t rank = full_ / 4;
  double cut = 0;
  for (int64_t k = rank; k < full_; ++k)
    cut += made->values()[static_cast<size_t>(k)] * made->values()[static_cast<size_t>(k)];
  const double error = PrunedError(plane_, ProductOf(plane_, made->At(rank)), {&fit, 1});
  EXPECT_NEAR(error / cut, 1, 0.02);
  EXPECT_TRUE(std::is_sorted(made->values().rbegin(), made->values().rend()));
}

TEST_P(FactorsTest, InputsThatAreAlwaysZeroDoNoHarm) {
  std::vector<float> x = x_;
  for (size_t i = 0; i < x.size(); ++i)
    if (i % static_cast<size_t>(plane_.depth()) % 3 == 0) x[i] = 0;
  const LayerMoments fit = MomentsOver(plane_, dense_, x);
  for (const bool outputs : {false, true}) {
    const double error = ErrorAt(plane_, dense_, fit, {.outputs = outputs}, full_ / 2, fit);
    EXPECT_GE(error, 0);
    EXPECT_LT(error, 0.02);
  }
  // Even where nothing at all was seen, or numbers whose squares are below the normal ones.
  for (const float scale : {0.0F, 1e-22F, 3e-23F}) {
    std::vector<float> tiny = x_;
    for (float& v : tiny) v *= scale;
    const LayerMoments none = MomentsOver(plane_, dense_, tiny);
    const auto made = LayerFactors::Make(plane_, dense_, none, {});
    ASSERT_TRUE(made.ok()) << made.status().message();
    const PrunedMatrix p = ProductOf(plane_, made->At(full_));
    for (size_t i = 0; i < dense_.size(); ++i) ASSERT_NEAR(p.weights[i], dense_[i], 2e-5);
  }
}

TEST_P(FactorsTest, LargeAndSmallInputsTogetherAreSolvedInDoubles) {
  // Scales of 1e-4 to 1e4 beside each other: squares span 16 decades, more than f32 holds.
  std::vector<float> x = x_;
  const auto d = static_cast<size_t>(plane_.depth());
  for (size_t i = 0; i < x.size(); ++i)
    x[i] *= std::pow(10.0f, -4.0f + 8.0f * static_cast<float>(i % d) / static_cast<float>(d));
  const LayerMoments fit = MomentsOver(plane_, dense_, x);
  const auto made = LayerFactors::Make(plane_, dense_, fit, {1e-12, false, false});
  ASSERT_TRUE(made.ok()) << made.status().message();
  const PrunedMatrix p = ProductOf(plane_, made->At(full_));
  for (size_t i = 0; i < dense_.size(); ++i) ASSERT_NEAR(p.weights[i], dense_[i], 1e-4) << i;
}

TEST_P(FactorsTest, TheChoiceIsJudgedOnHeldOutRows) {
  MomentsPair pair;
  pair.fit = {MomentsOver(plane_, dense_, x_)};
  pair.held_out = {MomentsOver(plane_, dense_, other_)};
  for (const bool shift : {false, true}) {
    const auto made = FactorLayer({plane_, dense_, full_ / 4, shift}, MomentsPair(pair));
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(made->factors.rank, full_ / 4);
    EXPECT_LT(made->layer.error, made->plain_error);
    EXPECT_NEAR(made->layer.dense_error, 0, 3e-3);
    EXPECT_EQ(made->factors.shift.size(), shift ? static_cast<size_t>(plane_.rows) : 0u);
  }
  MomentsPair broken = pair;
  broken.fit.front().h[0] = NAN;
  EXPECT_EQ(FactorLayer({plane_, dense_, 4, false}, std::move(broken)).status().code(),
            Code::kUnsupported);
  EXPECT_EQ(FactorLayer({plane_, dense_, 4, false}, {}).status().code(), Code::kUnsupported);
}

INSTANTIATE_TEST_SUITE_P(Extents, FactorsTest,
                         testing::Values(std::pair{24, 48}, std::pair{48, 24}, std::pair{32, 32}),
                         [](const auto& info) {
                           return std::to_string(info.param.first) + "x" +
                                  std::to_string(info.param.second);
                         });

}  // namespace
}  // namespace infer
