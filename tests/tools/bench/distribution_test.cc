#include "tools/bench/distribution.h"

#include <cmath>

#include "lib/support/random.h"
#include "lib/support/statistics.h"

namespace infer::bench {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

std::vector<double> LogNormal(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<double> v(n);
  for (double& x : v) x = std::exp(0.1 * random.Normal());
  return v;
}

TEST(Distribution, AgreesWithTheStatisticsOfTheLibrary) {
  for (size_t n : {1, 2, 7, 20, 101, 500}) {
    const std::vector<double> v = LogNormal(n, n);
    const Distribution d = Describe(v);
    const Summary s = Summarize(v);
    EXPECT_EQ(d.count, s.count);
    EXPECT_EQ(d.median, s.median);
    EXPECT_EQ(d.mad, s.mad);
    EXPECT_THAT(d.mean, DoubleNear(s.mean, 1e-12));
    EXPECT_THAT(d.stddev, DoubleNear(s.stddev, 1e-12));
    EXPECT_EQ(static_cast<int64_t>(d.outliers.size()), s.outliers);
    // One simulates the resamples, the other sums them up: apart by the noise of 1000 draws.
    const double width = s.median_high - s.median_low;
    EXPECT_THAT(d.median_low, DoubleNear(s.median_low, 0.25 * width + 1e-12)) << n;
    EXPECT_THAT(d.median_high, DoubleNear(s.median_high, 0.25 * width + 1e-12)) << n;
  }
}

TEST(Distribution, IntervalHoldsTheMedian) {
  for (size_t n : {25, 2500}) {
    int held = 0;
    constexpr int kDraws = 400;
    for (int draw = 0; draw < kDraws; ++draw) {
      const Distribution d = Describe(LogNormal(n, 1000 + draw));
      held += d.median_low <= 1 && 1 <= d.median_high;
    }
    EXPECT_GE(held, 0.92 * kDraws) << n;
    EXPECT_LE(held, 0.985 * kDraws) << n;
  }
}

TEST(Distribution, OutliersAreFlaggedAndStay) {
  const std::vector<double> v = {1.0, 1.1, 9.0, 0.9, 1.05, 0.95, 1.0};
  const Distribution d = Describe(v);
  EXPECT_THAT(d.outliers, ElementsAre(2));
  EXPECT_EQ(d.max, 9.0);
  EXPECT_EQ(d.count, 7);
}

TEST(Distribution, Nothing) {
  const Distribution d = Describe({});
  EXPECT_EQ(d.count, 0);
  EXPECT_EQ(d.percentiles.size(), 5u);
}

}  // namespace
}  // namespace infer::bench
