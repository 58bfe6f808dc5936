/// Histograms and windows.
#include "runtime/engine/telemetry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "lib/support/random.h"

namespace infer::engine {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

/// Spread over many powers of two, with exact small ones.
std::vector<int64_t> Drawn(uint64_t seed, int count) {
  Random random(seed);
  std::vector<int64_t> values;
  for (int i = 0; i < count; ++i)
    values.push_back(static_cast<int64_t>(std::exp(random.Uniform(0, 36))));
  return values;
}

TEST(Histogram, ValuesAreWithinFourPerMille) {
  std::vector<int64_t> values = Drawn(1, 20000);
  values.insert(values.end(), {0, 1, 127, 128, 255, 256, 257, Histogram::kMost});
  Histogram h;
  for (int64_t v : values) h.Record(v);
  std::sort(values.begin(), values.end());
  ASSERT_EQ(h.count(), static_cast<int64_t>(values.size()));
  for (size_t k = 0; k < values.size(); ++k) {
    const auto v = static_cast<double>(values[k]);
    ASSERT_LE(std::abs(h.ValueAt(static_cast<int64_t>(k)) - v), 0.004 * v) << v;
  }
  EXPECT_EQ(h.Quantile(0), h.ValueAt(0));
  EXPECT_EQ(h.Quantile(1), h.ValueAt(h.count() - 1));
}

TEST(Histogram, MergesToTheSameBitsInAnyOrder) {
  Histogram parts[8], all, forth, back;
  for (uint64_t i = 0; i < 8; ++i)
    for (int64_t v : Drawn(i, 500)) {
      parts[i].Record(v);
      all.Record(v);
    }
  for (int i = 0; i < 8; ++i) forth.Merge(parts[i]);
  for (int i = 7; i >= 0; --i) back.Merge(parts[i]);
  EXPECT_TRUE(forth == all);
  EXPECT_TRUE(back == all);
  back.Record(5);
  EXPECT_FALSE(back == all);
}

TEST(Histogram, CountsWhatIsTooLargeAndTakesMemoryAsItIsNeeded) {
  Histogram h;
  const int64_t empty = h.bytes();
  EXPECT_LE(empty, 512);
  for (int i = 0; i < 1000; ++i) h.Record(1'000'000 + i);
  EXPECT_EQ(h.bytes(), empty + 1024);
  h.Record(Histogram::kMost + 1);
  h.Record(-3);
  EXPECT_EQ(h.overflow(), 1);
  EXPECT_EQ(h.count(), 1001);
  EXPECT_EQ(h.ValueAt(0), 0);
  const Histogram copy = h;
  EXPECT_TRUE(copy == h);
  h.Clear();
  EXPECT_EQ(h.count() + h.overflow(), 0);
  EXPECT_EQ(Histogram().Quantile(0.5), 0);
}

TEST(Histogram, AllTogetherTakeNoMoreThanTheirLimit) {
  const int64_t before = Histogram::RecordedBytes();
  {
    std::vector<Histogram> many(2000);
    for (Histogram& h : many)
      for (int64_t v = 1; v <= Histogram::kMost; v *= 2) h.Record(v);
    EXPECT_LE(Histogram::RecordedBytes(), Histogram::kMostBytes);
    EXPECT_GT(Histogram::RecordedBytes(), Histogram::kMostBytes - 1024);
    EXPECT_EQ(many[0].overflow(), 0);
    EXPECT_EQ(many[0].count(), 53);
    EXPECT_EQ(many.back().overflow(), 53) << "counted, where nothing is kept";
    EXPECT_EQ(many.back().count(), 0);
    const Histogram view = many[0];
    EXPECT_TRUE(view == many[0]) << "a snapshot is not cut off";
    many.resize(1000);
    Histogram later;
    later.Record(5);
    EXPECT_EQ(later.count(), 1) << "memory of those that are gone is there again";
  }
  EXPECT_EQ(Histogram::RecordedBytes(), before);
}

TEST(Histogram, ManyThreadsLoseNothing) {
  Histogram h, want;
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int64_t v : Drawn(t, 5000)) h.Record(v);
      });
  }
  for (uint64_t t = 0; t < 4; ++t)
    for (int64_t v : Drawn(t, 5000)) want.Record(v);
  EXPECT_TRUE(h == want);
}

TEST(Telemetry, WindowsHoldWhatEndedInThem) {
  Telemetry t;
  const int64_t start = 1000 * kSecond;
  for (int64_t s = 0; s < 100; ++s)
    t.Record(s % 2 ? State::kFailed : State::kSucceeded, {.queue_ns = 10, .total_ns = 20},
             start + s * kSecond);
  const TelemetryView v = t.View(start + 99 * kSecond + kSecond / 2);
  EXPECT_EQ(v.total.ended(), 100);
  EXPECT_EQ(v.last_1s.ended(), 1);
  EXPECT_EQ(v.last_10s.ended(), 10);
  EXPECT_EQ(v.last_60s.ended(), 60);
  EXPECT_EQ(v.total.success_rate(), 0.5);
  EXPECT_EQ(v.last_1s.success_rate(), 0);
  const auto& queue = v.total.by[EndIndex(State::kFailed)][static_cast<size_t>(Phase::kQueue)];
  EXPECT_EQ(queue.count(), 50);
  EXPECT_EQ(queue.Quantile(0.5), 10);
  EXPECT_EQ(v.total.by[0][static_cast<size_t>(Phase::kCompute)].count(), 0) << "not reached";
  EXPECT_EQ(t.View(start + 1000 * kSecond).last_60s.ended(), 0);
  EXPECT_EQ(TelemetryView().total.success_rate(), 1);
  EXPECT_LE(t.bytes(), 1 << 20);
}

}  // namespace
}  // namespace infer::engine
