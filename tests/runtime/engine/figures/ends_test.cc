/// Shapes that are new, runs that are cancelled, and what telemetry holds and costs.
#include <algorithm>
#include <numeric>

#include "tests/runtime/engine/figures/figures.h"

namespace infer::engine::figures {
namespace {

/// Attention over an open extent: products, Softmax, reshapes that depend on it.
constexpr const char* kOpenExtentModel = R"(graph g(x: f32[N,L,64]) -> (y) {
  q = const f32[64,64] ~1 k = const f32[64,64] ~2 v = const f32[64,64] ~3
  a = MatMul(x, q) b = MatMul(x, k) c = MatMul(x, v) t = Transpose(b) {perm=[0,2,1]}
  s = MatMul(a, t) p = Softmax(s) m = MatMul(p, c) r = Add(m, x) y = Tanh(r) })";

/// One request for each extent, one after the other: microseconds by extent.
std::vector<double> OfExtents(Engine& engine, const std::vector<int64_t>& extents) {
  std::vector<double> us(extents.size() + 1);
  for (int64_t l : extents) {
    const Request request{.model = "m", .inputs = {Ones({1, l, 64})}};
    const auto start = Steady::now();
    EXPECT_EQ(engine.Infer(request).end, State::kSucceeded);
    us[static_cast<size_t>(l)] = 1e3 * MsSince(start);
  }
  us.erase(us.begin());
  return us;
}

TEST(EngineFigures, AThousandShapes) {
  constexpr int kShapes = 1000, kRounds = 3;
  const auto engine = EngineOf(1);
  ASSERT_TRUE(
      engine->Load("m", CompiledFor(Parsed(kOpenExtentModel)), {.warm_inputs = {Ones({1, 1, 64})}})
          .ok());
  std::vector<int64_t> extents(kShapes);
  std::iota(extents.begin(), extents.end(), 1);
  Random random(5);
  std::vector<std::vector<double>> rounds;
  std::vector<int64_t> bytes = {ResidentBytes()};
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = extents.size(); i > 1; --i)
      std::swap(extents[i - 1],
                extents[static_cast<size_t>(random.Below(static_cast<uint32_t>(i)))]);
    rounds.push_back(OfExtents(*engine, extents));
    bytes.push_back(ResidentBytes());
  }
  // The same extent again and again is what a run takes.
  std::vector<double> same(kShapes);
  for (int64_t l = 1; l <= kShapes; ++l) {
    const Request request{.model = "m", .inputs = {Ones({1, l, 64})}};
    EXPECT_EQ(engine->Infer(request).end, State::kSucceeded);
    const auto start = Steady::now();
    EXPECT_EQ(engine->Infer(request).end, State::kSucceeded);
    same[static_cast<size_t>(l - 1)] = 1e3 * MsSince(start);
  }
  const auto row = [&](const std::string& name, const std::vector<double>& us) {
    std::vector<double> added;
    for (size_t i = 0; i < us.size(); ++i) added.push_back(us[i] - same[i]);
    Tell("  ", name, ": p50 ", Us(Quantile(us, 0.5)), ", p99 ", Us(Quantile(us, 0.99)), ", most ",
         Us(Quantile(us, 1)), "; more than the same shape again: p50 ", Us(Quantile(added, 0.5)),
         ", p99 ", Us(Quantile(added, 0.99)));
  };
  Tell(kShapes, " shapes in random order, one request each:");
  for (int i = 0; i < kRounds; ++i)
    row(i == 0 ? "each for the first time" : Cat("round ", i + 1), rounds[static_cast<size_t>(i)]);
  row("each right behind itself", same);
  Tell("  memory: ", MiB(bytes[0]), " before, ", MiB(bytes[1]), " behind the first round, ",
       MiB(bytes.back()), " behind round ", kRounds);
  EXPECT_LE(Quantile(rounds[0], 0.99), 3 * Quantile(same, 0.99)) << "planning is most of a run";
  EXPECT_LE(bytes.back() - bytes[1], 8 << 20) << "it grows by shapes that it knows";
}

/// Demanded: a run that is cancelled ends within one step.
TEST(EngineFigures, CancelledRunsEndWithinAStep) {
  const SizedModel m = ChainOfMs(30, 256, 256);
  const double launch_ms = LongestLaunchMs(m.source, m.inputs);
  const auto engine = EngineOf(1);
  ASSERT_TRUE(engine->Load("m", m.source, {.warm_inputs = m.inputs}).ok());
  Random random(7);
  std::vector<double> ms, free_ms;
  int64_t cancelled = 0;
  for (int i = 0; i < 300; ++i) {
    std::stop_source stop;
    std::atomic<double> ended{0};
    OnTheirWay way;
    way.Begin();
    const auto start = Steady::now();
    engine->Submit({.model = "m", .inputs = m.inputs, .stop = stop.get_token()},
                   [&](const Outcome& o) {
                     cancelled += o.end == State::kCancelled;
                     ended = MsSince(start);
                     way.End();
                   });
    std::this_thread::sleep_for(
        std::chrono::duration<double, std::milli>(random.Uniform() * 0.9 * m.bare_ms));
    const double at = MsSince(start);
    stop.request_stop();
    // Whether the instance is free for others.
    while (engine->Stats()[0].queue.running > 0) std::this_thread::yield();
    free_ms.push_back(MsSince(start) - at);
    way.Await();
    if (ended > at) ms.push_back(ended - at);
  }
  Tell("a run of ", Ms(m.bare_ms), ", longest launch ", Ms(launch_ms), ", cancelled at random (",
       cancelled, " of 300): told after p50 ", Ms(Quantile(ms, 0.5)), ", p99 ",
       Ms(Quantile(ms, 0.99)), "; the instance is free after p50 ", Ms(Quantile(free_ms, 0.5)),
       ", p99 ", Ms(Quantile(free_ms, 0.99)));
  EXPECT_GE(cancelled, 250);
  EXPECT_LE(Quantile(ms, 0.5), 2 * launch_ms);
  EXPECT_LE(Quantile(free_ms, 0.5), 3 * launch_ms + 0.5) << "Stats takes a part of it";
}

/// Demanded: a snapshot holds all that ended a millisecond before. It holds what was told before,
/// which is more.
TEST(EngineFigures, SnapshotsHoldWhatEndedBefore) {
  const auto engine = EngineOf(2);
  ASSERT_TRUE(engine->Load("m", CompiledFor(Parsed(ChainText(1, 64))), {.instances = 2}).ok());
  std::atomic<int64_t> told{0};
  std::atomic<bool> ends{false};
  std::vector<std::thread> clients;
  for (int t = 0; t < 2; ++t)
    clients.emplace_back([&] {
      while (!ends) {
        EXPECT_EQ(engine->Infer({.model = "m", .inputs = {Ones({1, 64})}}).end, State::kSucceeded);
        ++told;
      }
    });
  int64_t snapshots = 0, missing = 0, missing_10s = 0;
  const auto start = Steady::now();
  std::vector<double> us;
  while (MsSince(start) < 900) {
    const int64_t before = told;
    const auto look = Steady::now();
    const ModelStats stats = engine->Stats()[0];
    us.push_back(1e3 * MsSince(look));
    missing += std::max<int64_t>(0, before - stats.times.total.ended(State::kSucceeded));
    missing += std::max<int64_t>(0, before - stats.ends[EndIndex(State::kSucceeded)]);
    missing_10s += std::max<int64_t>(0, before - stats.times.last_10s.ended(State::kSucceeded));
    ++snapshots;
  }
  ends = true;
  for (std::thread& c : clients) c.join();
  Tell(snapshots, " snapshots beside ", told.load(), " requests, p50 ", Us(Quantile(us, 0.5)),
       ": requests that had ended before and are missing: ", missing, ", in the last ten seconds ",
       missing_10s);
  EXPECT_EQ(missing, 0);
  EXPECT_EQ(missing_10s, 0);
}

/// Nanoseconds of one `act`, the least of 30 blocks: what others on the machine add is left out.
template <typename Act>
double LeastNs(const Act& act) {
  constexpr int kActs = 100'000;
  double least = 1e9;
  for (int block = 0; block < 30; ++block) {
    const auto start = Steady::now();
    for (int i = 0; i < kActs; ++i) act(i);
    least = std::min(least, 1e6 * MsSince(start) / kActs);
  }
  return least;
}

TEST(EngineFigures, RecordingCostsNanoseconds) {
  Histogram histogram;
  std::atomic<int64_t> count{0};
  const double record = LeastNs([&](int i) { histogram.Record(1'000 + int64_t{i} * 977); });
  const double add = LeastNs([&](int) { count.fetch_add(1, std::memory_order_relaxed); });
  Times times;
  const double request = LeastNs([&](int i) {
    times.Record(State::kSucceeded, {1'000 + i, 200, 3'000'000 + i, 3'001'200 + i});
  });
  LatencyFactors factors;
  const double met = LeastNs([&](int i) { factors.Add(i % 16, 1 + i % 8, 4'096, 3'001'200 + i); });
  EXPECT_GT(factors.load().count, 0);
  Tell("Histogram::Record: ", Rounded(record, 3), " ns; an atomic addition: ", Rounded(add, 3),
       " ns; the four phases of a request: ", Rounded(request, 3),
       " ns; what its latency goes along with: ", Rounded(met, 3), " ns");
  EXPECT_LE(record, std::max(20.0, 6 * add));
  EXPECT_LE(met, std::max(20.0, 6 * add));
}

}  // namespace
}  // namespace infer::engine::figures
