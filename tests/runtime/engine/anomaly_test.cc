/// Steps that are told and days in which nothing is: synthetic traffic with fixed seeds.
#include "runtime/engine/anomaly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "lib/support/random.h"
#include "tests/runtime/engine/from_environment.h"

namespace infer::engine {
namespace {

constexpr double kSlotS = 5, kDayS = 86'400;
constexpr int64_t kSlotsOfADay = 17'280;

/// Traffic of a day: rate and latency follow the hour (10 to 70 requests a second, latency 1.3 to
/// 3.3 times the idle one), latency wanders by 8 % with a memory of a minute, and every 15 minutes
/// a burst of 1 to 10 seconds makes requests 2 to 5 times as slow and fail in a tenth of all cases.
class Traffic {
 public:
  struct Step {
    double at_s = kDayS * 100, times = 2;  // latency from then on
    double errors = 0;                     // share of errors from then on; 0: as before
  };
  struct Kind {
    double times_rate = 1, errors = 0.005;
    bool only_errors = false;  // no latencies, which take time to draw
  };
  Traffic(uint64_t seed, double begin_s, Kind kind, Step step)
      : random_(seed), t_(begin_s), kind_(kind), step_(step) {
    NextBurst();
  }

  SlotFigures Next() {
    const double rate = 40 * (1 + 0.75 * std::sin(2 * std::numbers::pi * t_ / kDayS));
    const double level = 1 / (1 - 0.14 - 0.55 * rate / 70);
    constexpr double kMemory = 0.92;
    wander_ = kMemory * wander_ + 0.08 * std::sqrt(1 - kMemory * kMemory) * random_.Normal();
    const double mean = kSlotS * rate * kind_.times_rate;
    const auto n =
        static_cast<int64_t>(std::max(1.0, std::round(mean + std::sqrt(mean) * random_.Normal())));
    SlotFigures f{.slot = slot_++, .ended = n};
    std::vector<double> ns;
    for (int64_t i = 0; i < n; ++i) {
      const double at_s = t_ + kSlotS * random_.Uniform();
      const bool in_burst = at_s >= burst_s_ && at_s < burst_s_ + burst_length_s_;
      const bool stepped = at_s >= step_.at_s;
      const double share = in_burst                      ? 0.1
                           : stepped && step_.errors > 0 ? step_.errors
                                                         : kind_.errors;
      if (random_.Uniform() < share) {
        ++f.errors;
        continue;
      }
      ++f.succeeded;
      if (kind_.only_errors) continue;
      double times = level * std::exp(wander_ + 0.35 * random_.Normal());
      if (random_.Uniform() < 0.01) times *= 1 + 3 * random_.Uniform();
      if (in_burst) times *= burst_times_;
      if (stepped) times *= step_.times;
      ns.push_back(2e6 * times);
    }
    const auto quantile = [&](double q) {
      const auto k =
          std::min(ns.size() - 1, static_cast<size_t>(q * static_cast<double>(ns.size())));
      std::nth_element(ns.begin(), ns.begin() + static_cast<std::ptrdiff_t>(k), ns.end());
      return ns[k];
    };
    if (!ns.empty()) f.p50_ns = quantile(0.5), f.p99_ns = quantile(0.99);
    t_ += kSlotS;
    if (t_ > burst_s_ + burst_length_s_) NextBurst();
    return f;
  }
  /// The end of the last slot.
  double now_s() const { return t_; }

 private:
  void NextBurst() {
    burst_s_ = t_ + 60 - 840 * std::log(1 - random_.Uniform());
    burst_length_s_ = random_.Uniform(1, 10);
    burst_times_ = random_.Uniform(2, 5);
  }

  Random random_;
  double t_;
  Kind kind_;
  Step step_;
  int64_t slot_ = 0;
  double wander_ = 0, burst_s_ = 0, burst_length_s_ = 0, burst_times_ = 1;
};

/// INFER_ENGINE_DAYS: how many.
void ExpectFewAlarms(double times_rate, int64_t days, int64_t slots = kSlotsOfADay) {
  std::array<int64_t, kFigures> by = {};
  for (int64_t day = 0; day < days; ++day) {
    Traffic traffic(static_cast<uint64_t>(day), 0, {.times_rate = times_rate}, {});
    AnomalyWatch watch;
    int64_t told = 0;
    for (int64_t i = 0; i < slots; ++i)
      for (const Anomaly& a : watch.See(traffic.Next())) {
        ++told;
        ++by[static_cast<size_t>(a.figure)];
      }
    EXPECT_LE(told, 1) << "day " << day;
  }
  for (size_t f = 0; f < kFigures; ++f)
    ::testing::Test::RecordProperty(
        std::string("alarms_of_") + std::string(Name(static_cast<Figure>(f))),
        static_cast<int>(by[f]));
}

TEST(AnomalyWatch, TellsAtMostOneFalseAlarmADay) {
  ExpectFewAlarms(1, FromEnvironment("INFER_ENGINE_DAYS", 1));
}

TEST(AnomalyWatch, TellsAtMostOneFalseAlarmADayOfManyRequests) {
  // So many that p99 counts, which takes seconds for a day: by default its first two hours.
  const int64_t days = FromEnvironment("INFER_ENGINE_DAYS", 1);
  ExpectFewAlarms(20, (days + 2) / 3, days > 1 ? kSlotsOfADay : kSlotsOfADay / 12);
}

/// Seconds from the step until one of `figures` is told; nullopt: a minute does not do.
std::optional<double> SecondsUntilSeen(uint64_t seed, const Traffic::Kind& kind, Traffic::Step step,
                                       std::vector<Figure> figures) {
  Random random(seed, 7);
  const double begin_s = kDayS * random.Uniform();
  step.at_s = begin_s + 900 + kSlotS * random.Uniform();
  Traffic traffic(seed, begin_s, kind, step);
  AnomalyWatch watch;
  while (traffic.now_s() < step.at_s + 60)
    for (const Anomaly& a : watch.See(traffic.Next()))
      if (traffic.now_s() > step.at_s && std::count(figures.begin(), figures.end(), a.figure) > 0)
        return traffic.now_s() - step.at_s;
  return std::nullopt;
}

void ExpectSeen(const Traffic::Kind& kind, const Traffic::Step& step,
                const std::vector<Figure>& figures) {
  const int64_t steps = FromEnvironment("INFER_ENGINE_DAYS", 1) * 20;
  double latest = 0;
  for (int64_t seed = 0; seed < steps; ++seed) {
    const auto seen_s = SecondsUntilSeen(static_cast<uint64_t>(seed), kind, step, figures);
    EXPECT_LE(seen_s.value_or(99), 30) << "seed " << seed;
    latest = std::max(latest, seen_s.value_or(99));
  }
  ::testing::Test::RecordProperty("latest_s", std::to_string(latest));
}

TEST(AnomalyWatch, SeesTwiceTheLatencyWithinThirtySeconds) {
  ExpectSeen({}, {}, {Figure::kP50, Figure::kP99});
}

TEST(AnomalyWatch, SeesTenTimesTheErrorsWithinThirtySeconds) {
  ExpectSeen({.times_rate = 4, .only_errors = true}, {.times = 1, .errors = 0.05},
             {Figure::kErrors});
}

TEST(AnomalyWatch, SeesTwiceTheErrorsWhereRequestsAreMany) {
  ExpectSeen({.times_rate = 40, .errors = 0.02, .only_errors = true}, {.times = 1, .errors = 0.04},
             {Figure::kErrors});
}

SlotFigures Steady(int64_t slot, double times = 1) {
  return {.slot = slot,
          .ended = 2000,
          .errors = 20,
          .succeeded = 1980,
          .p50_ns = 1e6 * times * (1 + 0.01 * static_cast<double>(slot % 5)),
          .p99_ns = 3e6 * times};
}

TEST(AnomalyWatch, AStepIsToldOnceAndWithItsFigures) {
  AnomalyWatch watch;
  std::vector<Anomaly> all;
  for (int64_t slot = 0; slot < 200; ++slot)
    for (const Anomaly& a : watch.See(Steady(slot, slot < 100 ? 1 : 3))) all.push_back(a);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].figure, Figure::kP50);
  EXPECT_EQ(all[1].figure, Figure::kP99);
  for (const Anomaly& a : all) {
    EXPECT_EQ(a.slot, 103);
    EXPECT_EQ(a.by, Anomaly::By::kFar);
    EXPECT_NEAR(a.value / a.usual, 3, 0.1);
    EXPECT_GT(a.z, 4);
  }
}

TEST(AnomalyWatch, BurstsOfThreeSlotsAndStepsDownAreNone) {
  AnomalyWatch watch;
  for (int64_t slot = 0; slot < 400; ++slot) {
    const double times = slot % 40 < 3 ? 10 : slot < 200 ? 1 : 0.3;
    EXPECT_TRUE(watch.See(Steady(slot, times)).empty()) << slot;
  }
  EXPECT_TRUE(watch.See(Steady(399, 9)).empty()) << "it was seen";
}

TEST(AnomalyWatch, AStepBehindAStepDownIsTold) {
  AnomalyWatch watch;
  std::vector<Anomaly> all;
  for (int64_t slot = 0; slot < 300; ++slot) {
    const double times = slot < 100 || slot >= 200 ? 1 : 0.3;
    for (const Anomaly& a : watch.See(Steady(slot, times))) all.push_back(a);
  }
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].slot, 203);
}

TEST(StepTest, ManySmallDeviationsAreAStepByTheirSum) {
  StepTest t;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(t.Add(0.5, 1), StepTest::Step::kNone);
  StepTest::Step step = StepTest::Step::kNone;
  int slots = 0;
  while (step == StepTest::Step::kNone && ++slots < 100) step = t.Add(1.75, 1);
  EXPECT_EQ(step, StepTest::Step::kChange);
  EXPECT_EQ(slots, 6) << "6 by 1 a slot";
  t.Clear();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(t.Add(100, i % 2), StepTest::Step::kNone) << "too small";
}

TEST(AnomalyWatch, FiguresAreThoseOfTheTelemetrysSlot) {
  Telemetry t;
  const int64_t begin = 20 * kTelemetrySlotNs;
  for (int64_t i = 0; i < 30; ++i)
    t.Record(i % 3 == 0   ? State::kFailed
             : i % 3 == 1 ? State::kCancelled
                          : State::kSucceeded,
             {.total_ns = 1000 + 100 * (i / 15)}, begin + i * kTelemetrySlotNs / 15);
  const TelemetryView v = t.View(begin + 2 * kTelemetrySlotNs);
  const SlotFigures f = FiguresOf(v.last_slot, v.slot);
  EXPECT_EQ(f.slot, 21);
  EXPECT_EQ(f.ended, 10);
  EXPECT_EQ(f.errors, 5);
  EXPECT_EQ(f.succeeded, 5);
  EXPECT_NEAR(f.p50_ns, 1100, 5);
}

}  // namespace
}  // namespace infer::engine
