/// Versions that are swapped under load, and engines that are drained under load.
#include <malloc.h>

#include "tests/runtime/engine/figures/figures.h"

namespace infer::engine::figures {
namespace {

constexpr int kSwaps = 200, kSwapsOfAPart = 5;
constexpr double kPartS = 1.0, kShareOfCapacity = 0.4;

/// 16 MiB of weights, one row: reading them is most of the run. Each version has weights of its
/// own.
struct SwappedModel {
  std::string text = ChainText(4, 1024);
  std::vector<Datum> inputs = {Ones({1, 1024})};
  ModelOptions options{.instances = 2, .warm_inputs = inputs};
  ModelSource Next() const { return CompiledFor(Parsed(text)); }
};

/// `swaps` versions over kPartS, from this thread: compiled anew, or of programs that are there.
void Swap(Engine& engine, const SwappedModel& m, int swaps, const std::vector<ModelSource>& ready) {
  const auto start = Steady::now();
  for (int i = 0; i < swaps; ++i) {
    std::this_thread::sleep_until(start + std::chrono::duration_cast<Steady::duration>(
                                              std::chrono::duration<double>(i * kPartS / swaps)));
    ModelSource source = ready.empty() ? m.Next() : ready[static_cast<size_t>(i) % 2];
    const Status swapped = engine.Load("m", std::move(source), m.options);
    EXPECT_TRUE(swapped.ok()) << swapped.message();
  }
}

struct SwapFigures {
  Answers quiet, swapped;
  int64_t before = 0, one = 0, peak = 0, after_first = 0, after = 0;  // bytes of the process
};

SwapFigures MeasureSwaps(bool compiles) {
  const SwappedModel m;
  SwapFigures f;
  const auto engine = EngineOf(2);
  ::malloc_trim(0);  // what tests before have freed would be taken for nothing
  f.before = ResidentBytes();
  EXPECT_TRUE(engine->Load("m", m.Next(), m.options).ok());
  const Request request{.model = "m", .inputs = m.inputs};
  const double capacity = ClosedLoop(*engine, request, 4).RateFor(1);
  ::malloc_trim(0);
  f.one = ResidentBytes() - f.before;
  std::vector<ModelSource> ready;
  if (!compiles) ready = {m.Next(), m.Next()};
  ForgetPeak();
  int64_t peak_with_ready = ready.empty() ? 0 : ResidentBytes();
  for (int part = 0; part < kSwaps / kSwapsOfAPart; ++part) {
    const auto seed = static_cast<uint64_t>(part);
    OpenLoop quiet(*engine, request, kShareOfCapacity * capacity, seed);
    f.quiet.Add(quiet.RunFor(kPartS));
    OpenLoop load(*engine, request, kShareOfCapacity * capacity, seed);
    std::thread swapper([&] { Swap(*engine, m, kSwapsOfAPart, ready); });
    f.swapped.Add(load.RunFor(kPartS));
    swapper.join();
    if (part == 0) f.after_first = ResidentBytes();
  }
  f.peak = PeakBytes() - (peak_with_ready > 0 ? peak_with_ready - f.before - f.one : 0);
  f.after = ResidentBytes();
  engine->Drain();
  EXPECT_EQ(engine->Stats()[0].old_versions, 0);
  return f;
}

void TellSwaps(const SwapFigures& f, const char* what) {
  const double quiet = Quantile(f.quiet.ms, 0.99), swapped = Quantile(f.swapped.ms, 0.99);
  Tell(kSwaps, " swaps at 40 % of capacity, ", what, ": ", f.swapped.came(),
       " requests beside them, ", f.swapped.came() - f.swapped.of(State::kSucceeded),
       " failed; p50 ", Ms(Quantile(f.swapped.ms, 0.5)), " (without swaps ",
       Ms(Quantile(f.quiet.ms, 0.5)), "), p99 ", Ms(swapped), " (", Ms(quiet),
       "): ", Rounded(swapped / quiet, 3), " times");
  Tell("  memory: one version ", MiB(f.one), ", peak ", MiB(f.peak - f.before), " (",
       Rounded(static_cast<double>(f.peak - f.before) / static_cast<double>(f.one), 3),
       " of one), behind the first ", kSwapsOfAPart, " swaps ", MiB(f.after_first - f.before),
       ", behind the last ", MiB(f.after - f.before));
  EXPECT_EQ(f.swapped.of(State::kSucceeded), f.swapped.came());
  EXPECT_EQ(f.quiet.of(State::kSucceeded), f.quiet.came());
  EXPECT_LE(swapped, 1.5 * quiet) << what;
}

TEST(EngineFigures, HotSwapsOfCompiledPrograms) {
  const SwapFigures f = MeasureSwaps(false);
  TellSwaps(f, "of programs that are there");
}

TEST(EngineFigures, HotSwapsThatCompile) {
  const SwapFigures f = MeasureSwaps(true);
  TellSwaps(f, "read and compiled beside the load");
  const auto one = static_cast<double>(f.one);
  EXPECT_LE(static_cast<double>(f.peak - f.before), 2.2 * one) << "old + new + 10 %";
  EXPECT_LE(static_cast<double>(f.after - f.after_first), 0.1 * one) << "it grows by swaps";
}

/// 10,000 requests from four threads, Drain somewhere among them, 20 times at other moments.
/// Whoever was taken is answered.
TEST(EngineFigures, DrainLosesNone) {
  constexpr int kRequests = 10'000, kThreads = 4, kDrains = 20;
  const ModelSource source = CompiledFor(Parsed(ChainText(1, 64)));
  int64_t taken = 0, answered = 0, lost = 0, twice = 0;
  for (int drain = 0; drain < kDrains; ++drain) {
    const auto engine = EngineOf(2);
    ASSERT_TRUE(
        engine->Load("m", source, {.instances = 2, .queue = {.max_requests = kRequests}}).ok());
    std::vector<std::atomic<int>> told(kRequests);
    std::atomic<int> submitted{0}, succeeded{0}, rejected{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int i = t; i < kRequests; i += kThreads) {
          engine->Submit({.model = "m", .inputs = {Ones({1, 64})}}, [&, i](const Outcome& o) {
            ++told[static_cast<size_t>(i)];
            ++(o.end == State::kSucceeded ? succeeded : rejected);
          });
          ++submitted;
        }
      });
    // The last time behind all of them.
    const int from = drain + 1 == kDrains ? kRequests : kRequests * drain / kDrains;
    while (submitted < from) std::this_thread::yield();
    engine->Drain();
    for (std::thread& t : threads) t.join();
    const ModelStats stats = engine->Stats()[0];
    taken += stats.ends[EndIndex(State::kSucceeded)];
    answered += succeeded;
    for (const auto& n : told) {
      lost += n == 0;
      twice += n > 1;
    }
    EXPECT_EQ(succeeded + rejected, kRequests);
    if (from == kRequests) {
      EXPECT_EQ(succeeded, kRequests);
    }
  }
  Tell("Drain, ", kDrains, " times among ", kRequests, " requests: ", taken, " taken, ", answered,
       " answered, ", lost, " lost, ", twice, " told twice");
  EXPECT_EQ(answered, taken);
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(twice, 0);
}

}  // namespace
}  // namespace infer::engine::figures
