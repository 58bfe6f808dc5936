#include "quant/calibrate/observer.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/support/random.h"
#include "quant/calibrate/histogram.h"

namespace infer {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> Stream(uint64_t seed, size_t n, double shift, double spread) {
  Random r(seed);
  std::vector<float> v(n);
  for (float& x : v) x = static_cast<float>(shift + spread * r.Normal());
  return v;
}

std::unique_ptr<Observer> Fed(const ObserverFactory& make, const std::vector<float>& v,
                              size_t batch) {
  auto o = make();
  for (size_t at = 0; at < v.size(); at += batch)
    o->See({v.data() + at, std::min(batch, v.size() - at)});
  return o;
}

const QuantGrid kU8{DType::kU8, false};
const QuantGrid kS8{DType::kI8, true};

TEST(MinMaxObserver, IsExactOverBatches) {
  const auto v = Stream(1, 1000, 0.3, 2);
  const auto [lo, hi] = std::minmax_element(v.begin(), v.end());
  for (const size_t batch : {1, 7, 1000}) {
    const auto range = Fed(MinMaxObserver(), v, batch)->Choose(kU8);
    ASSERT_TRUE(range.ok());
    EXPECT_EQ(range->range, (Interval{*lo, *hi}));
  }
}

TEST(Observers, IgnoreAndCountNonFinite) {
  for (const char* name : {"minmax", "percentile:99", "moving-average", "entropy", "mse", "auto"}) {
    const auto make = ParseObserver(name);
    ASSERT_TRUE(make.ok());
    const auto clean = Fed(*make, {1, -2, 3}, 3);
    auto dirty = (*make)();
    dirty->See(std::vector<float>{kNan, 1, -2, kInf, 3, -kInf});
    dirty->See(std::vector<float>{kNan, kInf});
    EXPECT_EQ(dirty->count(), 3) << name;
    EXPECT_EQ(dirty->non_finite(), 5) << name;
    EXPECT_EQ(dirty->Choose(kU8)->range, clean->Choose(kU8)->range) << name;
  }
}

TEST(Observers, RefuseWhenNothingFiniteWasSeen) {
  for (const char* name : {"minmax", "percentile", "moving-average", "entropy", "mse", "auto"}) {
    auto o = (*ParseObserver(name))();
    EXPECT_FALSE(o->Choose(kU8).ok());
    o->See(std::vector<float>{kNan, kInf});
    EXPECT_EQ(o->Choose(kU8).status().code(), Code::kInvalidModel);
  }
}

TEST(Observers, AllZeroGivesPositiveScale) {
  for (const char* name : {"minmax", "percentile", "moving-average", "entropy", "mse", "auto"}) {
    auto o = (*ParseObserver(name))();
    o->See(std::vector<float>(100, 0.0f));
    for (const QuantGrid& grid : {kU8, kS8}) {
      const QuantParams p = ChooseParams(o->Choose(grid)->range, grid);
      EXPECT_GT(p.scale[0], 0) << name;
      EXPECT_EQ(p.zero_point[0], 0) << name;
    }
  }
}

TEST(MovingAverageObserver, FollowsTheRecurrence) {
  auto o = MovingAverageObserver(0.9)();
  o->See(std::vector<float>{-1, 4});
  o->See(std::vector<float>{-3, 2});
  o->See(std::vector<float>{-2, 8});
  // lo: -1 -> -1.2 -> -1.28; hi: 4 -> 3.8 -> 4.22
  EXPECT_NEAR(o->Choose(kU8)->range.lo, -1.28, 1e-12);
  EXPECT_NEAR(o->Choose(kU8)->range.hi, 4.22, 1e-12);
}

TEST(PercentileObserver, MatchesSortedValues) {
  for (const uint64_t seed : {1, 2, 3}) {
    auto v = Stream(seed, 20000, seed == 2 ? 5 : -0.4, 1.7);
    const auto o = Fed(PercentileObserver(99), v, 613);
    const double bin = 2 * (o->seen().hi - o->seen().lo) / Histogram::kBins;
    // Rank k of 1..n lies between its neighbours, up to one bin.
    const auto expect_rank = [&](double x, const std::vector<float>& sorted, size_t k) {
      EXPECT_GE(x, sorted[k - 2] - bin);
      EXPECT_LE(x, sorted[k] + bin);
    };
    const Interval two_sided = o->Choose(kU8)->range, magnitude = o->Choose(kS8)->range;
    std::sort(v.begin(), v.end());
    expect_rank(two_sided.lo, v, 100);
    expect_rank(two_sided.hi, v, 19900);
    std::vector<float> a = v;
    for (float& x : a) x = std::fabs(x);
    std::sort(a.begin(), a.end());
    expect_rank(std::max(-magnitude.lo, magnitude.hi), a, 19800);
  }
}

TEST(PercentileObserver, HundredIsMinMax) {
  const auto v = Stream(4, 500, 0, 1);
  EXPECT_EQ(Fed(PercentileObserver(100), v, 50)->Choose(kU8)->range,
            Fed(MinMaxObserver(), v, 50)->Choose(kU8)->range);
}

TEST(PercentileObserver, CutsAnOutlier) {
  std::vector<float> v = Stream(5, 100000, 0, 1);
  v[777] = 30;
  const Interval r = Fed(PercentileObserver(99.9), v, 1000)->Choose(kU8)->range;
  EXPECT_LT(r.hi, 4);
  EXPECT_GT(r.hi, 3);
}

TEST(ParseObserver, ReadsArgumentsAndRefusesNonsense) {
  EXPECT_TRUE(ParseObserver("minmax").ok());
  EXPECT_TRUE(ParseObserver("percentile:99.9").ok());
  EXPECT_TRUE(ParseObserver("moving-average:0").ok());
  for (const char* bad : {"", "min", "minmax:1", "percentile:50", "percentile:101",
                          "percentile:", "percentile:nan", "moving-average:1", "moving-average:x"})
    EXPECT_EQ(ParseObserver(bad).status().code(), Code::kInvalidArgument) << bad;
  EXPECT_THAT(ParseObserver("kl").status().message(), testing::HasSubstr("percentile[:99.99]"));
}

}  // namespace
}  // namespace infer
