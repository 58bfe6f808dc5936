#include "quant/accuracy/metrics.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/support/random.h"

namespace infer {
namespace {

using testing::ElementsAre;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(TensorComparer, HandComputedNumbers) {
  TensorComparer c;
  // r = (3, 4, 0), d = (0, -1, 1)
  ASSERT_TRUE(c.Add(Tensor::Of<float>({3}, {3, 4, 0}), Tensor::Of<float>({3}, {3, 3, 1})).ok());
  const TensorMetrics m = c.metrics();
  EXPECT_NEAR(m.sqnr_db, 10 * std::log10(25.0 / 2), 1e-12);
  EXPECT_NEAR(m.psnr_db, 20 * std::log10(4 / std::sqrt(2.0 / 3)), 1e-12);
  EXPECT_NEAR(m.cosine, 21 / (5 * std::sqrt(19.0)), 1e-12);
  EXPECT_EQ(m.max_abs_error, 1);
  EXPECT_NEAR(m.mean_abs_error, 2.0 / 3, 1e-12);
  EXPECT_EQ(m.max_abs_golden, 4);
  EXPECT_EQ(m.max_error_ratio, 0.25);
  EXPECT_EQ(m.elements, 3);
}

/// Streaming equals the formulas on everything at once.
TEST(TensorComparer, StreamsLikeOneTensor) {
  Random random(3);
  const int64_t n = 40, width = 25;
  Tensor golden(DType::kF32, {n, width}), candidate(DType::kF32, {n, width});
  for (int64_t i = 0; i < n * width; ++i) {
    golden.Set(i, random.Normal());
    candidate.Set(i, golden.At(i) + 0.1 * random.Normal());
  }
  TensorComparer whole, rows;
  ASSERT_TRUE(whole.Add(golden, candidate).ok());
  for (int64_t r = 0; r < n; ++r) {
    const auto cut = [&](const Tensor& t) {
      return Tensor::Of<float>({1, width}, t.data<float>().subspan(static_cast<size_t>(r * width),
                                                                   static_cast<size_t>(width)));
    };
    ASSERT_TRUE(rows.Add(cut(golden), cut(candidate)).ok());
  }
  EXPECT_DOUBLE_EQ(whole.metrics().sqnr_db, rows.metrics().sqnr_db);
  EXPECT_DOUBLE_EQ(whole.metrics().cosine, rows.metrics().cosine);
  EXPECT_EQ(whole.metrics().max_abs_error, rows.metrics().max_abs_error);
  EXPECT_DOUBLE_EQ(whole.row_metrics()->kl, rows.row_metrics()->kl);
  EXPECT_EQ(whole.row_metrics()->top1_agreement, rows.row_metrics()->top1_agreement);
  EXPECT_EQ(whole.row_metrics()->rows, n);
  EXPECT_NEAR(whole.metrics().sqnr_db, 20, 1);  // noise of a tenth
}

TEST(TensorComparer, EqualTensors) {
  TensorComparer c;
  const Tensor t = Tensor::Of<float>({1, 3}, {1, 2, 3});
  ASSERT_TRUE(c.Add(t, t).ok());
  EXPECT_EQ(c.metrics().sqnr_db, std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(c.metrics().cosine, 1);
  EXPECT_EQ(c.row_metrics()->kl, 0);
  EXPECT_EQ(c.row_metrics()->top1_agreement, 1);
}

TEST(TensorComparer, ZerosAndNonFinite) {
  TensorComparer zero;
  ASSERT_TRUE(zero.Add(Tensor::Zeros(DType::kF32, {4}), Tensor::Zeros(DType::kF32, {4})).ok());
  EXPECT_EQ(zero.metrics().cosine, 1);
  EXPECT_EQ(zero.metrics().max_error_ratio, 0);
  TensorComparer lost;
  ASSERT_TRUE(lost.Add(Tensor::Of<float>({2}, {1, 1}), Tensor::Zeros(DType::kF32, {2})).ok());
  EXPECT_EQ(lost.metrics().cosine, 0);
  TensorComparer bad;
  ASSERT_TRUE(bad.Add(Tensor::Of<float>({5}, {kNan, kInf, 1, kInf, 2}),
                      Tensor::Of<float>({5}, {kNan, kInf, kNan, -kInf, 2}))
                  .ok());
  EXPECT_EQ(bad.metrics().non_finite_mismatches, 2);
  EXPECT_EQ(bad.metrics().max_abs_error, 0);
}

TEST(TensorComparer, SubnormalNumbersCountAsZero) {
  TensorComparer flushed;
  ASSERT_TRUE(
      flushed.Add(Tensor::Of<float>({2}, {3e-39f, -1e-40f}), Tensor::Zeros(DType::kF32, {2})).ok());
  EXPECT_LT(flushed.metrics().max_error_ratio, 1e-38);
  TensorComparer far;
  ASSERT_TRUE(far.Add(Tensor::Of<float>({2}, {3e-39f, 0}), Tensor::Of<float>({2}, {0, 1})).ok());
  EXPECT_EQ(far.metrics().max_error_ratio, 1);
  TensorComparer small;
  ASSERT_TRUE(small.Add(Tensor::Of<float>({1}, {4e-38f}), Tensor::Of<float>({1}, {2e-38f})).ok());
  EXPECT_NEAR(small.metrics().max_error_ratio, 0.5, 1e-6);
}

TEST(TensorComparer, OtherTypes) {
  TensorComparer ints;
  ASSERT_TRUE(
      ints.Add(Tensor::Of<int64_t>({3}, {1, 2, 3}), Tensor::Of<int64_t>({3}, {1, 5, 4})).ok());
  EXPECT_EQ(ints.metrics().unequal, 2);
  EXPECT_FALSE(ints.row_metrics());
  TensorComparer strings;
  ASSERT_TRUE(
      strings.Add(Tensor::OfStrings({2}, {"a", "b"}), Tensor::OfStrings({2}, {"a", "c"})).ok());
  EXPECT_EQ(strings.metrics().unequal, 1);
  TensorComparer halves;
  const Tensor h = Tensor::Of<float>({2}, {1, 2}).Cast(DType::kF16);
  ASSERT_TRUE(halves.Add(h, Tensor::Of<float>({2}, {1, 3}).Cast(DType::kF16)).ok());
  EXPECT_EQ(halves.metrics().max_abs_error, 1);
  EXPECT_FALSE(halves.Add(h, Tensor::Of<float>({2}, {1, 2})).ok());
  EXPECT_FALSE(halves.Add(h, Tensor::Of<float>({1, 2}, {1, 2}).Cast(DType::kF16)).ok());
}

TEST(RowMetrics, KlOfSoftmaxAndOfProbabilities) {
  TensorComparer scores;
  ASSERT_TRUE(
      scores.Add(Tensor::Of<float>({1, 2}, {0, 0}), Tensor::Of<float>({1, 2}, {std::log(3.0f), 0}))
          .ok());
  // p = (1/2, 1/2), q = (3/4, 1/4)
  const double kl = 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25);
  EXPECT_NEAR(scores.row_metrics()->kl, kl, 1e-7);
  TensorComparer probabilities;
  ASSERT_TRUE(
      probabilities
          .Add(Tensor::Of<float>({1, 2}, {0.5f, 0.5f}), Tensor::Of<float>({1, 2}, {0.75f, 0.25f}))
          .ok());
  EXPECT_NEAR(probabilities.row_metrics()->kl, kl, 1e-7);
}

/// A candidate of few bits rounds each probability by itself: what they sum to is not 1.
TEST(RowMetrics, RoundedProbabilitiesAreTakenByTheirShares) {
  const auto of = [](std::vector<float> golden, std::vector<float> candidate) {
    const Dims dims{1, static_cast<int64_t>(golden.size())};
    TensorComparer c;
    EXPECT_TRUE(c.Add(Tensor::Of<float>(dims, golden), Tensor::Of<float>(dims, candidate)).ok());
    return *c.row_metrics();
  };
  const RowMetrics exact = of({0.5f, 0.5f}, {0.75f, 0.25f});
  for (const float sum : {0.9f, 1.01f, 1.3f}) {
    const RowMetrics rounded = of({0.5f, 0.5f}, {0.75f * sum, 0.25f * sum});
    EXPECT_NEAR(rounded.kl, exact.kl, 1e-6) << sum;
    EXPECT_NEAR(rounded.rms_dp, exact.rms_dp, 1e-6) << sum;
  }
  // Below 0 is 0, and 0 is not infinitely wrong.
  EXPECT_NEAR(of({0.5f, 0.5f}, {1, -0.01f}).kl, of({0.5f, 0.5f}, {1, 0}).kl, 1e-6);
  const double nothing = of({0.5f, 0.5f}, {0, 0}).kl;
  EXPECT_TRUE(std::isfinite(nothing));
  EXPECT_GT(nothing, 20);
  // Golden's own rounding is no divergence from itself.
  EXPECT_EQ(of({0.5f, 0.5009f}, {0.5f, 0.5009f}).kl, 0);
  // Softmax of ten classes in steps of 1/64.
  std::vector<float> golden, candidate;
  for (int i = 0; i < 10; ++i) golden.push_back(static_cast<float>(std::exp(-0.2 * i)));
  const float sum = std::accumulate(golden.begin(), golden.end(), 0.0f);
  for (float& v : golden) candidate.push_back(std::round((v /= sum) * 64) / 64);
  EXPECT_NE(std::accumulate(candidate.begin(), candidate.end(), 0.0f), 1);
  EXPECT_LT(of(golden, candidate).kl, 0.005);
}

TEST(RowMetrics, Agreement) {
  TensorComparer c;
  ASSERT_TRUE(c.Add(Tensor::Of<float>({2, 7}, {9, 8, 7, 6, 5, 1, 0, 9, 8, 7, 6, 5, 1, 0}),
                    Tensor::Of<float>({2, 7}, {9, 8, 7, 6, 1, 5, 0, 8, 9, 7, 6, 5, 1, 0}))
                  .ok());
  EXPECT_EQ(c.row_metrics()->top1_agreement, 0.5);
  EXPECT_NEAR(c.row_metrics()->top5_agreement, 0.9, 1e-12);
}

TEST(RowsOf, Layouts) {
  const auto rows = [](const Dims& d) { return std::pair(RowsIn(d).count, RowsIn(d).width); };
  EXPECT_EQ(rows({10}), std::pair(int64_t{1}, int64_t{10}));
  EXPECT_EQ(rows({4, 10}), std::pair(int64_t{4}, int64_t{10}));
  EXPECT_EQ(rows({4, 1000, 1, 1}), std::pair(int64_t{4}, int64_t{1000}));
  EXPECT_EQ(rows({2, 3, 5}), std::pair(int64_t{6}, int64_t{5}));
  EXPECT_EQ(rows({}), std::pair(int64_t{1}, int64_t{1}));
  EXPECT_EQ(rows({0, 3}).first, 0);
}

TEST(TopK, TiesAndNan) {
  EXPECT_THAT(TopK(std::vector<float>{1, 3, 3, kNan, 2}, 5), ElementsAre(1, 2, 4, 0, 3));
  EXPECT_EQ(ArgMax(std::vector<float>{kNan, kNan}), 0);
  EXPECT_EQ(ArgMax(std::vector<float>{kNan, -kInf}), 1);
}

TEST(QuantileSketch, WithinOnePercentOfExact) {
  Random random(5);
  QuantileSketch sketch;
  std::vector<double> all;
  EXPECT_EQ(sketch.At(0.5), 0);
  for (int i = 0; i < 5001; ++i) {
    const double v = i % 10 == 0 ? 0 : std::exp(3 * random.Normal());
    sketch.Add(v);
    all.push_back(v);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(sketch.At(0.05), 0);
  for (const double q : {0.2, 0.5, 0.9, 0.99, 0.999}) {
    const double exact = all[static_cast<size_t>(q * 5000)];
    EXPECT_NEAR(sketch.At(q), exact, 0.0101 * exact) << q;
  }
}

/// Of many experiments on 8 samples, 95 % of the intervals hold the ratio of the true powers.
TEST(TensorComparer, SqnrIntervalCovers) {
  Random random(11);
  int held = 0;
  constexpr int kTimes = 600;
  for (int t = 0; t < kTimes; ++t) {
    TensorComparer c;
    for (int s = 0; s < 8; ++s) {
      Tensor golden(DType::kF32, {32}), candidate(DType::kF32, {32});
      const double noise = 0.05 * (1 + 0.5 * random.Normal());  // differs by sample
      for (int64_t i = 0; i < 32; ++i) {
        golden.Set(i, random.Normal());
        candidate.Set(i, golden.At(i) + noise * random.Normal());
      }
      ASSERT_TRUE(c.Add(golden, candidate).ok());
    }
    const TensorMetrics m = c.metrics();
    ASSERT_TRUE(m.sqnr_interval);
    const double truth = -10 * std::log10(0.05 * 0.05 * 1.25);
    held += m.sqnr_interval->lo <= truth && truth <= m.sqnr_interval->hi;
  }
  EXPECT_GT(held, 0.90 * kTimes);
  EXPECT_LT(held, 0.99 * kTimes);
}

TEST(TensorComparer, NoIntervalOfOneSample) {
  TensorComparer c;
  ASSERT_TRUE(c.Add(Tensor::Of<float>({2}, {1, 2}), Tensor::Of<float>({2}, {1, 3})).ok());
  EXPECT_FALSE(c.metrics().sqnr_interval);
}

TEST(TensorComparer, DivergenceByQuantiles) {
  TensorComparer c;
  // Row 0 is equal, row 1 is not: p = (1/2, 1/2), q = (3/4, 1/4).
  const float third = std::log(3.0F);
  ASSERT_TRUE(
      c.Add(Tensor::Of<float>({2, 2}, {0, 0, 0, 0}), Tensor::Of<float>({2, 2}, {0, 0, third, 0}))
          .ok());
  const RowMetrics r = *c.row_metrics();
  const double kl = 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25);
  EXPECT_NEAR(r.kl, kl / 2, 1e-7);
  EXPECT_NEAR(r.kl_error, kl / 2, 1e-7);
  EXPECT_NEAR(r.rms_dp, 0.25 / std::sqrt(2.0), 1e-7);
  ASSERT_EQ(r.kl_quantiles.size(), std::size(kKlQuantiles));
  EXPECT_EQ(r.kl_quantiles.front(), 0);
}

}  // namespace
}  // namespace infer
