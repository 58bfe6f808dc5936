#include "quant/calibrate/histogram.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "lib/support/random.h"

namespace infer {
namespace {

std::vector<float> Values(uint64_t seed, int n) {
  Random r(seed);
  std::vector<float> v;
  // Magnitudes over many octaves, so that the bins must widen again and again.
  for (int i = 0; i < n; ++i)
    v.push_back(
        static_cast<float>(r.Normal() * std::ldexp(1.0, static_cast<int>(r.Below(30)) - 15)));
  return v;
}

void ExpectSame(const Histogram& a, const Histogram& b) {
  EXPECT_EQ(a.count(), b.count());
  EXPECT_EQ(a.first_bin(), b.first_bin());
  EXPECT_EQ(a.bin_width(), b.bin_width());
  EXPECT_THAT(a.bins(), testing::ElementsAreArray(b.bins().begin(), b.bins().end()));
}

TEST(Histogram, DependsOnlyOnTheMultiset) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<float> v = Values(seed, 2000);
    Histogram at_once, one_by_one, sorted, reversed;
    at_once.Add(v);
    for (const float& x : v) one_by_one.Add({&x, 1});
    std::sort(v.begin(), v.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    for (size_t i = 0; i < v.size(); i += 100) sorted.Add({v.data() + i, 100});
    std::reverse(v.begin(), v.end());
    for (size_t i = 0; i < v.size(); i += 250) reversed.Add({v.data() + i, 250});
    ExpectSame(at_once, one_by_one);
    ExpectSame(at_once, sorted);
    ExpectSame(at_once, reversed);
  }
}

TEST(Histogram, CountsEqualADirectCount) {
  const std::vector<float> v = Values(7, 5000);
  Histogram h;
  for (size_t i = 0; i < v.size(); i += 37)
    h.Add({v.data() + i, std::min<size_t>(37, v.size() - i)});
  std::map<int64_t, int64_t> expected;
  for (const float x : v)
    ++expected[static_cast<int64_t>(std::floor(static_cast<double>(x) / h.bin_width()))];
  std::map<int64_t, int64_t> got;
  for (size_t k = 0; k < h.bins().size(); ++k)
    if (h.bins()[k]) got[h.first_bin() + static_cast<int64_t>(k)] = h.bins()[k];
  EXPECT_EQ(got, expected);
  EXPECT_LE(h.bins().size(), static_cast<size_t>(Histogram::kBins));
  EXPECT_GT(h.bins().size(), static_cast<size_t>(Histogram::kBins) / 4);
}

TEST(Histogram, MemoryDoesNotGrow) {
  Histogram h;
  h.Add(Values(1, 100));
  const int64_t before = h.memory_bytes();
  for (uint64_t i = 0; i < 200; ++i) h.Add(Values(i, 1000));
  EXPECT_EQ(h.memory_bytes(), before);
  EXPECT_LT(before, 128 * 1024);
}

TEST(Histogram, ExtremeValues) {
  const std::vector<std::vector<float>> streams = {
      {0, 0, 0}, {1e-45f}, {-1e-45f, 3.4e38f}, {3.4e38f, -3.4e38f},
      {5, 5, 5}, {-7},     {1e30f, 1e-30f}};
  for (const auto& v : streams) {
    Histogram h;
    for (const float& x : v) h.Add({&x, 1});
    EXPECT_EQ(h.count(), static_cast<int64_t>(v.size()));
    EXPECT_EQ(std::accumulate(h.bins().begin(), h.bins().end(), int64_t{0}), h.count());
    EXPECT_EQ(h.Quantile(1), static_cast<double>(*std::max_element(v.begin(), v.end())));
    EXPECT_GE(h.Quantile(0), h.min());
    EXPECT_LE(h.MagnitudeQuantile(0.5), std::max(std::fabs(h.min()), std::fabs(h.max())));
  }
}

/// Long streams take a faster way; it must count the same.
TEST(Histogram, BlocksCountAsSingleNumbersDo) {
  Random r(5);
  for (const double spread : {1e-3, 1.0, 300.0, 1e5}) {
    std::vector<float> v(70000);
    for (float& x : v) x = std::max(static_cast<float>(spread * r.Normal()), -0.5f);
    Histogram at_once, pieces;
    at_once.Add(v);
    for (size_t i = 0; i < v.size(); i += 10) pieces.Add({v.data() + i, 10});
    ExpectSame(at_once, pieces);
    v[300] = std::numeric_limits<float>::quiet_NaN();
    Histogram odd;
    odd.Add(v);
    EXPECT_EQ(odd.count(), at_once.count() - 1);
    EXPECT_EQ(odd.non_finite(), 1);
  }
}

TEST(Histogram, SavesAndLoads) {
  for (const auto& v : std::vector<std::vector<float>>{{}, {3}, Values(9, 3000)}) {
    Histogram h, again;
    h.Add(v);
    std::string bytes;
    h.Save(bytes);
    std::string_view in = bytes;
    ASSERT_TRUE(again.Load(in));
    EXPECT_TRUE(in.empty());
    ExpectSame(h, again);
    again.Add(Values(2, 50));
    h.Add(Values(2, 50));
    ExpectSame(h, again);
    for (size_t n = 0; n < bytes.size(); n += 1 + bytes.size() / 50) {
      std::string_view cut(bytes.data(), n);
      EXPECT_FALSE(again.Load(cut));
    }
  }
}

TEST(Histogram, MagnitudeQuantileOfOneSign) {
  std::vector<float> v;
  for (int i = 1; i <= 1000; ++i) v.push_back(-static_cast<float>(i));
  Histogram h;
  h.Add(v);
  EXPECT_NEAR(h.MagnitudeQuantile(0.9), 900, h.bin_width() + 1);
  EXPECT_NEAR(h.Quantile(0.1), -900, h.bin_width() + 1);
}

}  // namespace
}  // namespace infer
