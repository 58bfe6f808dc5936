#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include "lib/support/hash.h"
#include "lib/support/parallel.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

TEST(Strings, NumbersRoundTrip) {
  for (double v : {0.1, 1e-5, 1e300, -0.0, 3.0}) EXPECT_EQ(*ParseDouble(FormatDouble(v)), v);
  EXPECT_FALSE(ParseDouble("1.5x"));
  EXPECT_FALSE(ParseInt(""));
  EXPECT_EQ(*ParseInt("+7"), 7);
}

TEST(Strings, Glob) {
  EXPECT_TRUE(GlobMatch("conv*", "conv1"));
  EXPECT_TRUE(GlobMatch("*/[ab]?/*", "layer/b1/weight"));
  EXPECT_FALSE(GlobMatch("*/[ab]?/*", "layer/c1/weight"));
  EXPECT_TRUE(GlobMatch("[!x]*z", "yz"));
  EXPECT_FALSE(GlobMatch("a*b", "acbd"));
}

TEST(Hash, EveryBytePositionCounts) {
  std::vector<uint8_t> data(100, 7);
  const uint64_t h = HashBytes(data.data(), data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] ^= 1;
    EXPECT_NE(HashBytes(data.data(), data.size()), h) << i;
    data[i] ^= 1;
  }
  EXPECT_NE(HashBytes(data.data(), 99), h);
}

TEST(Random, IsStandardNormal) {
  Random random(5);
  double sum = 0, squares = 0;
  constexpr int kN = 100000;
  for (int i = 0; i < kN; ++i) {
    const double v = random.Normal();
    sum += v;
    squares += v * v;
  }
  EXPECT_NEAR(sum / kN, 0, 0.02);
  EXPECT_NEAR(squares / kN, 1, 0.03);
}

TEST(ParallelFor, CoversEveryIndexOnce) {
  for (int lanes : {1, 2, 3, 7}) {
    SetLaneBudget(lanes);
    LaneLease lease(0);
    std::vector<std::atomic<int>> hits(1000);
    ParallelFor(1000, 10, [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; ++i) ++hits[static_cast<size_t>(i)];
    });
    for (auto& h : hits) EXPECT_EQ(h, 1);
  }
  SetLaneBudget(AvailableCores());
}

TEST(LaneLease, ConcurrentRunsStayInTheBudget) {
  SetLaneBudget(3);
  std::atomic<int> running{0}, worst{0};
  auto work = [&] {
    for (int i = 0; i < 20; ++i) {
      LaneLease lease(2);
      ParallelFor(64, 1, [&](int64_t a, int64_t b) {
        const int now = ++running;
        for (int w = worst; now > w && !worst.compare_exchange_weak(w, now);) {
        }
        volatile double x = 0;
        for (int64_t k = a; k < b * 1000; ++k) x = x + static_cast<double>(k);
        --running;
      });
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) threads.emplace_back(work);
  for (auto& t : threads) t.join();
  EXPECT_LE(worst, 3);
  EXPECT_GE(worst, 1);
  SetLaneBudget(AvailableCores());
}

}  // namespace
}  // namespace infer
