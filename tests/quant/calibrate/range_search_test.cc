#include "quant/calibrate/range_search.h"

#include <gmock/gmock.h>

#include <cmath>

#include "lib/support/random.h"
#include "quant/calibrate/observer.h"

namespace infer {
namespace {

const QuantGrid kUnsignedGrid{DType::kU8, false}, kSignedGrid{DType::kI8, true};

/// What QuantizeLinear and DequantizeLinear really cost.
double ErrorOf(const std::vector<float>& v, const QuantParams& p) {
  double sum = 0;
  for (const float x : v) {
    const auto q = QuantizeValue(static_cast<double>(x), p.scale[0], p.zero_point[0], p.dtype);
    const double e = static_cast<double>(x) -
                     static_cast<double>(p.scale[0]) * static_cast<double>(q - p.zero_point[0]);
    sum += e * e;
  }
  return sum / static_cast<double>(v.size());
}

struct Case {
  const char* name;
  std::vector<float> values;
};

std::vector<Case> Cases() {
  std::vector<Case> cases = {
      {"normal", {}}, {"relu", {}}, {"outlier", {}}, {"shifted", {}}, {"negative", {}}};
  Random r(11);
  for (int i = 0; i < 10000; ++i) {
    const auto n = static_cast<float>(r.Normal());
    cases[0].values.push_back(n);
    cases[1].values.push_back(std::max(n, 0.0f));
    cases[2].values.push_back(i == 777 ? 60 : n);
    cases[3].values.push_back(5 + 0.1f * n);
    cases[4].values.push_back(-std::fabs(n) * std::fabs(n));
  }
  return cases;
}

Histogram HistogramOf(const std::vector<float>& v) {
  Histogram h;
  h.Add(v);
  return h;
}

TEST(BinnedValues, ErrorIsThatOfTheNumbers) {
  for (const Case& c : Cases()) {
    const Histogram h = HistogramOf(c.values);
    for (const QuantGrid& grid : {kUnsignedGrid, kSignedGrid}) {
      for (const double by : {1.0, 0.5, 0.1}) {
        const QuantParams p = ChooseParams({h.min() * by, h.max() * by}, grid);
        const double want = ErrorOf(c.values, p);
        EXPECT_NEAR(BinnedValues(h).SquaredError(p), want, 0.1 * want) << c.name << " " << by;
      }
    }
  }
}

TEST(LeastSquaresRange, BeatsEveryOtherRangeOnTheNumbersThemselves) {
  for (const Case& c : Cases()) {
    const Histogram h = HistogramOf(c.values);
    for (const QuantGrid& grid : {kUnsignedGrid, kSignedGrid}) {
      const Interval best = LeastSquaresRange(BinnedValues(h), grid);
      EXPECT_GE(best.lo, h.min());
      EXPECT_LE(best.hi, h.max());
      const double least = ErrorOf(c.values, ChooseParams(best, grid));
      for (int i = 1; i <= 12; ++i)
        for (int k = 1; k <= 12; ++k) {
          const Interval other{h.min() * i / 12, h.max() * k / 12};
          if (other.lo > other.hi) continue;
          EXPECT_LE(least, 1.02 * ErrorOf(c.values, ChooseParams(other, grid)))
              << c.name << " " << other.lo << " " << other.hi;
        }
    }
  }
}

TEST(LeastSquaresRange, CutsWhatFinerStepsOutweigh) {
  Random r(12);
  std::vector<float> v(400000);
  for (float& x : v) x = std::clamp(static_cast<float>(r.Normal()), -4.0f, 4.0f);
  // Cutting 8 at 4 costs 16 once; steps of 8 / 255 instead of 12 / 255 gain 1e-4 on each number.
  v[5] = 8;
  EXPECT_LT(LeastSquaresRange(BinnedValues(HistogramOf(v)), kUnsignedGrid).hi, 5);
  v.resize(20000);
  EXPECT_GT(LeastSquaresRange(BinnedValues(HistogramOf(v)), kUnsignedGrid).hi, 7);
}

TEST(Divergence, FollowsTheDefinition) {
  // Bins of width 1 at 1...8: with 4 codes of two bins each, by hand.
  std::vector<float> v;
  const int counts[] = {8, 4, 2, 2, 1, 3, 1, 1};
  for (int k = 0; k < 8; ++k)
    for (int i = 0; i < counts[k]; ++i) v.push_back(1.5f + static_cast<float>(k));
  const BinnedValues values(HistogramOf(v));
  EXPECT_EQ(values.seen(), (Interval{1.5, 8.5}));
  // Grids that keep every bin apart lose nothing; one that cuts loses.
  EXPECT_NEAR(values.Divergence({DType::kU8, -1, {0.1f}, {0}}), 0, 1e-12);
  const double cut = values.Divergence({DType::kU8, -1, {0.02f}, {0}});  // up to 5.1
  // Kept: 8 4 2 2, the last bin takes what lies beyond: P = 8 4 2 8 of 22, Q = 8 4 2 2 of 16.
  const double want = 8. / 22 * std::log(4) + std::log(16. / 22);
  EXPECT_NEAR(cut, want, 1e-9);
}

TEST(LeastDivergenceRange, OneSidedRangesStayOneSided) {
  const std::vector<Case> cases = Cases();
  const Interval relu =
      LeastDivergenceRange(BinnedValues(HistogramOf(cases[1].values)), kUnsignedGrid);
  EXPECT_EQ(relu.lo, 0);
  EXPECT_GT(relu.hi, 2);
  const Interval negative =
      LeastDivergenceRange(BinnedValues(HistogramOf(cases[4].values)), kUnsignedGrid);
  EXPECT_LE(negative.hi, 0);
  EXPECT_LT(negative.lo, -2);
}

TEST(LeastDivergenceRange, ZerosDoNotMatter) {
  std::vector<float> v = Cases()[1].values;
  const Interval before = LeastDivergenceRange(BinnedValues(HistogramOf(v)), kUnsignedGrid);
  v.resize(v.size() + 1000000, 0.0f);
  EXPECT_EQ(LeastDivergenceRange(BinnedValues(HistogramOf(v)), kUnsignedGrid), before);
}

TEST(RangeSearch, DegenerateNumbers) {
  for (const std::vector<float>& v : std::vector<std::vector<float>>{
           {0, 0}, {5, 5}, {-3}, {1e-45f}, {3.4e38f, -3.4e38f}, {1e30f, 1e-30f}}) {
    const Histogram h = HistogramOf(v);
    for (const QuantGrid& grid : {kUnsignedGrid, kSignedGrid}) {
      for (const Interval& r : {LeastSquaresRange(BinnedValues(h), grid),
                                LeastDivergenceRange(BinnedValues(h), grid)}) {
        EXPECT_LE(r.lo, r.hi);
        EXPECT_GE(r.lo, h.min());
        EXPECT_LE(r.hi, h.max());
      }
    }
  }
}

TEST(AutoObserver, TakesTheCandidateWithTheLeastError) {
  for (const Case& c : Cases()) {
    auto o = AutoObserver()();
    o->See(c.values);
    const auto chosen = o->Choose(kUnsignedGrid);
    ASSERT_TRUE(chosen.ok());
    ASSERT_EQ(chosen->candidates.size(), 5u);
    bool found = false;
    for (const RangeCandidate& candidate : chosen->candidates) {
      if (candidate.observer == chosen->observer) {
        found = true;
        EXPECT_EQ(candidate.range, chosen->range);
      }
      const auto alone = (*ParseObserver(candidate.observer))();
      alone->See(c.values);
      EXPECT_EQ(alone->Choose(kUnsignedGrid)->range, candidate.range) << candidate.observer;
      EXPECT_LE(ErrorOf(c.values, ChooseParams(chosen->range, kUnsignedGrid)),
                1.05 * ErrorOf(c.values, ChooseParams(candidate.range, kUnsignedGrid)));
    }
    EXPECT_TRUE(found);
  }
}

}  // namespace
}  // namespace infer
