/// Correlations against their plain formula, and the matrix of engines in virtual time whose
/// latencies are known.
#include "runtime/engine/device_matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lib/support/random.h"
#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

TEST(Pairs, CorrelateAsTwoPassesDo) {
  Random random(1);
  std::vector<double> x, y;
  Pairs all, parts[3];
  for (int i = 0; i < 3000; ++i) {
    x.push_back(1e6 + random.Normal());
    y.push_back(0.6 * x.back() + 0.8 * random.Normal());
    all.Add(x.back(), y.back());
    parts[i < 7 ? 0 : 1].Add(x.back(), y.back());
  }
  const auto mean = [](const std::vector<double>& v) {
    double sum = 0;
    for (double a : v) sum += a - 1e6;
    return 1e6 + sum / static_cast<double>(v.size());
  };
  const double mx = mean(x), my = mean(y);
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
    xy += (x[i] - mx) * (y[i] - my);
  }
  const Correlation c = *all.Correlate();
  EXPECT_NEAR(c.r, xy / std::sqrt(xx * yy), 1e-9);
  EXPECT_NEAR(c.r, 0.6, 0.05);
  EXPECT_LT(c.low, c.r);
  EXPECT_GT(c.high, c.r);
  Pairs merged;
  for (const Pairs& p : parts) merged.Merge(p);
  EXPECT_EQ(merged.count, 3000);
  EXPECT_NEAR(merged.Correlate()->r, c.r, 1e-9);
}

TEST(Pairs, IntervalsHoldWhatIsTrue) {
  Random random(2);
  int held = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    Pairs p;
    for (int i = 0; i < 250; ++i) {
      const double x = random.Normal();
      p.Add(x, 0.3 * x + std::sqrt(1 - 0.09) * random.Normal());
    }
    const Correlation c = *p.Correlate();
    held += c.low <= 0.3 && 0.3 <= c.high;
  }
  EXPECT_GE(held, 930);
  EXPECT_LE(held, 970);
}

TEST(Pairs, TellNothingOfFewOrEqualOnes) {
  Pairs few, equal, line;
  for (int64_t i = 0; i < Pairs::kLeast; ++i) {
    if (i > 0) few.Add(static_cast<double>(i % 7), static_cast<double>(i % 5));
    equal.Add(0.1, static_cast<double>(i % 5));
    line.Add(static_cast<double>(i), -3.0 * static_cast<double>(i));
  }
  EXPECT_FALSE(few.Correlate());
  EXPECT_FALSE(equal.Correlate());
  EXPECT_NEAR(line.Correlate()->r, -1, 1e-9);
  EXPECT_FALSE(Pairs().Correlate());
}

TEST(LatencyFactors, LogarithmsOfTheTable) {
  EXPECT_EQ(TableLog(0), 0);
  EXPECT_EQ(TableLog(-5), 0);
  EXPECT_EQ(TableLog(1), kLogUnit);
  EXPECT_EQ(TableLog(std::numeric_limits<int64_t>::max()), 63 * kLogUnit);
  int64_t before = -1;
  Random random(4);
  for (int64_t n = 0; n < (int64_t{1} << 60); n += 1 + n / (1 + random.Below(1000))) {
    const int64_t log = TableLog(n);
    ASSERT_GE(log, before) << n;
    before = log;
    const double real = std::log2(static_cast<double>(n) + 1);
    const double found = static_cast<double>(log) / kLogUnit;
    ASSERT_LE(found, real + 1e-9) << n;
    ASSERT_GE(found, real + std::log2(1 - 0.003)) << n;
  }
}

/// Against sums of real logarithms, in any order.
TEST(LatencyFactors, AreThoseOfRealLogarithms) {
  Random random(6);
  LatencyFactors all, parts[2], other_way;
  Pairs load, bytes;
  for (int i = 0; i < 5000; ++i) {
    const int64_t before = random.Below(30), in = 1 + random.Below(100'000);
    const auto total =
        static_cast<int64_t>(1e5 * static_cast<double>(before + 2) * (0.5 + random.Uniform()));
    all.Add(before, 1, in, total);
    parts[i % 2].Add(before, 1, in, total);
    const auto log = [](int64_t n) { return std::log2(static_cast<double>(n) + 1); };
    load.Add(log(before), log(total));
    bytes.Add(log(in), log(total));
  }
  EXPECT_NEAR(all.load().Correlate()->r, load.Correlate()->r, 1e-3);
  EXPECT_NEAR(all.bytes().Correlate()->r, bytes.Correlate()->r, 1e-3);
  EXPECT_NEAR(all.load().mean_y, load.mean_y, 3e-3);
  EXPECT_NEAR(all.load().yy / load.yy, 1, 1e-3);
  EXPECT_FALSE(all.rows().Correlate()) << "always the same";
  other_way.Merge(parts[1]);
  other_way.Merge(parts[0]);
  EXPECT_EQ(other_way.load().xy, all.load().xy) << "to the bit";
  EXPECT_EQ(other_way.bytes().xx, all.bytes().xx);
  EXPECT_EQ(LatencyFactors().load().count, 0);
}

/// Where `busy`, requests come in bursts and a run takes 1 ms whatever it has; else one by one, of
/// 1 to 8 rows of 1 ms each.
ModelStats Served(bool busy, const std::string& device, int64_t row_ns) {
  const auto sim = std::make_shared<Simulation>(1, 1);
  const auto engine = *Engine::Make({.clock = sim, .executor = sim});
  const auto hook = [&, busy](const std::vector<Datum>& inputs, const RunOptions&) {
    sim->Elapse(busy ? row_ns : inputs[0].tensor().dim(0) * row_ns);
    return Status();
  };
  ModelSource source = SourceOf(kRowsModel, hook);
  source.device = device;
  const ModelOptions options{.batch = {.max_rows = busy ? 1 : 8}};
  EXPECT_TRUE(engine->Load(device, std::move(source), options).ok());
  for (int64_t i = 0; i < 400; ++i)
    sim->At(busy ? i / 10 * 20 * row_ns : i * 20 * row_ns, [&, i] {
      engine->Submit({.model = device, .inputs = {Filled(1, busy ? 1 : 1 + i % 8)}},
                     [](Outcome) {});
    });
  sim->RunAll();
  return engine->Stats()[0];
}

TEST(DeviceMatrix, TellsWhatLatencyGoesAlongWith) {
  const ModelStats sizes = Served(false, "cpu", 1'000'000), bursts = Served(true, "cpu", 1'000'000);
  ASSERT_EQ(sizes.versions.size(), 1u);
  const LatencyFactors& by_size = sizes.versions[0].factors;
  EXPECT_GT(by_size.bytes().Correlate().value().r, 0.98);
  EXPECT_GT(by_size.rows().Correlate().value().r, 0.98);
  EXPECT_FALSE(by_size.load().Correlate()) << "each came to an idle model";
  const LatencyFactors& by_load = bursts.versions[0].factors;
  EXPECT_GT(by_load.load().Correlate().value().r, 0.98);
  EXPECT_FALSE(by_load.bytes().Correlate()) << "all are alike";
}

TEST(DeviceMatrix, HasModelsByDevice) {
  // Two variants, and one of them was loaded for another device later.
  ModelStats a = Served(false, "cpu", 1'000'000), b = Served(false, "cpu", 1'000'000);
  a.model = "a";
  b.model = "b";
  const ModelStats other = Served(false, "vulkan", 100'000'000);
  b.versions.push_back(other.versions[0]);
  b.versions.push_back(other.versions[0]);
  b.versions.push_back({.version = 9, .device = "idle"});
  b.versions[1].times.Record(State::kFailed, {.total_ns = 5});
  const std::vector<MatrixCell> cells = DeviceMatrix(std::vector<ModelStats>{a, b});
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[1].model, "b");
  EXPECT_EQ(cells[1].device, "cpu");
  EXPECT_EQ(cells[2].device, "vulkan");
  EXPECT_EQ(cells[2].times.ended(State::kSucceeded), 800);
  EXPECT_EQ(cells[2].factors.bytes().count, 800);
  EXPECT_EQ(cells[2].times.success_rate(), 800.0 / 801);
  EXPECT_EQ(cells[0].times.success_rate(), 1);
  // The latency of one device varies by a factor of eight, that of two by a hundred besides.
  EXPECT_GT(*DeviceShare(cells), 0.9);
  EXPECT_FALSE(DeviceShare(std::span(cells).first(2))) << "one device";
  std::vector<MatrixCell> alike = cells;
  alike[2].factors = cells[1].factors;
  EXPECT_NEAR(*DeviceShare(alike), 0, 1e-9);
}

}  // namespace
}  // namespace infer::engine
