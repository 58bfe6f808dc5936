#include "tools/infer_bench/load/soak.h"

#include <cmath>
#include <utility>

#include "lib/support/random.h"
#include "tests/tools/load/simulated_engine.h"

namespace infer::bench {
namespace {

constexpr double kHourMs = 3.6e6;

/// An engine of 40 ms +- 3 % and a process of 100 MB +- 50 kB, that may creep.
struct Patient {
  double slower_per_hour = 0;  // share
  double leaked_per_hour = 0;  // bytes
  double stall_at_ms = 1e18, stall_ms = 0;

  SoakResult Watch(double hours, double rate = 0) const {
    Random noise(7), memory(8);
    bool stalled = false;
    SimulatedEngine engine(1, [&](double start, int64_t) {
      const double creep = 1 + slower_per_hour * start / kHourMs;
      const bool stalls = start > stall_at_ms && !std::exchange(stalled, start > stall_at_ms);
      return 40 * creep * (1 + 0.03 * noise.Normal()) + (stalls ? stall_ms : 0);
    });
    SoakOptions o;
    o.load.duration_s = o.load.max_duration_s = 3600 * hours;
    o.load.rate = rate;
    if (rate > 0) o.load.arrivals = Arrivals::kPoisson;
    o.resident = [&] {
      return std::llround(1e8 + leaked_per_hour * engine.now_ms / kHourMs + 5e4 * memory.Normal());
    };
    return *Soak(engine, o);
  }
};

TEST(Soak, NothingCreeps) {
  const SoakResult r = Patient{}.Watch(2);
  EXPECT_EQ(r.windows.size(), 120u);
  EXPECT_EQ(r.skipped, 12);
  EXPECT_EQ(r.verdict, DriftVerdict::kSteady);
  EXPECT_NEAR(*r.median_ms.slope, 0, 0.1);
  EXPECT_NEAR(r.median_ms.level, 40, 0.08);
  EXPECT_LE(*r.median_ms.low, 0.05);
  EXPECT_FALSE(r.load.latency.exact());  // bounded memory
}

TEST(Soak, ALeakIsFound) {
  const SoakResult r = Patient{.leaked_per_hour = 2e7}.Watch(2);
  EXPECT_EQ(r.verdict, DriftVerdict::kDrifts);
  EXPECT_EQ(r.median_ms.verdict, DriftVerdict::kSteady);
  EXPECT_NEAR(*r.resident_bytes.slope, 2e7, 1e6);
  EXPECT_LT(*r.resident_bytes.low, 2e7);
  EXPECT_GT(*r.resident_bytes.high, 2e7);
}

TEST(Soak, ASlowdownIsFound) {
  const SoakResult r = Patient{.slower_per_hour = 0.1}.Watch(2);
  EXPECT_EQ(r.verdict, DriftVerdict::kDrifts);
  EXPECT_EQ(r.resident_bytes.verdict, DriftVerdict::kSteady);
  EXPECT_NEAR(*r.median_ms.slope, 4, 0.2);
}

TEST(Soak, OneStallIsNoDrift) {
  const SoakResult r = Patient{.stall_at_ms = kHourMs, .stall_ms = 150'000}.Watch(2, 10);
  EXPECT_EQ(r.verdict, DriftVerdict::kSteady);
  EXPECT_GT(r.load.latency.max(), 149'000);
  // A window in which nothing was answered is in the report, without figures.
  EXPECT_TRUE(std::any_of(r.windows.begin(), r.windows.end(),
                          [](const SoakWindow& w) { return w.answered == 0; }));
  EXPECT_LT(r.median_ms.points, static_cast<int64_t>(r.windows.size()) - r.skipped);
}

TEST(Soak, FewWindowsSayNothing) {
  const SoakResult r = Patient{.leaked_per_hour = 2e7}.Watch(0.1);
  EXPECT_EQ(r.verdict, DriftVerdict::kInconclusive);
  EXPECT_FALSE(r.resident_bytes.slope);
  EXPECT_EQ(r.resident_bytes.reason, "needs 8 windows, there are 6");
}

TEST(Drift, TheIntervalHoldsTheTruth) {
  // 95 of 100, give or take, over independent noise.
  int held = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    std::vector<double> hours, values;
    for (int i = 0; i < 30; ++i) {
      hours.push_back(i / 10.0);
      values.push_back(5 + 0.7 * hours.back() + random.Normal());
    }
    const Drift d = FindDrift(hours, values, 0);
    held += *d.low <= 0.7 && *d.high >= 0.7;
  }
  EXPECT_GE(held, 365);
  EXPECT_LE(held, 395);
}

TEST(Drift, ALimitInTheIntervalIsInconclusive) {
  std::vector<double> hours, values;
  Random random(1);
  for (int i = 0; i < 20; ++i) {
    hours.push_back(i);
    values.push_back(i + random.Normal());
  }
  EXPECT_EQ(FindDrift(hours, values, 1).verdict, DriftVerdict::kInconclusive);
  EXPECT_EQ(FindDrift(hours, values, 0.5).verdict, DriftVerdict::kDrifts);
  EXPECT_EQ(FindDrift(hours, values, 1.5).verdict, DriftVerdict::kSteady);
}

TEST(Drift, AConstantIsSteady) {
  std::vector<double> hours, values(20, 5.0);
  for (int i = 0; i < 20; ++i) hours.push_back(i);
  const Drift d = FindDrift(hours, values, 0.1);
  EXPECT_EQ(d.verdict, DriftVerdict::kSteady);
  EXPECT_EQ(*d.slope, 0);
}

}  // namespace
}  // namespace infer::bench
