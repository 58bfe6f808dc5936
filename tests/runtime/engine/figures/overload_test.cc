/// Ten times as many requests as can be answered.
#include "tests/runtime/engine/figures/figures.h"

namespace infer::engine::figures {
namespace {

constexpr int kParts = 8;
constexpr double kPeakS = 0.8, kOverloadS = 1.2, kTimes = 10;

struct Overload {
  QueueLimits queue = {};
  int64_t timeout_ns = kNever;
};

struct OverloadFigures {
  std::vector<double> goodput;       // of each part, over the peak beside it
  std::vector<double> of_free_peak;  // over that of a machine on which no requests are made
  Answers answers;
  int64_t bytes_first = 0, bytes_last = 0;  // of the process behind the first part and the last
};

/// Answers per second of a closed loop that keeps both instances busy, while this thread wakes as
/// often as the one that makes `per_s` requests a second. What its wake-ups cost is not the
/// engine's.
double PeakBeside(Engine& engine, const Request& request, double per_s, double seconds) {
  ClosedLoop loop(engine, request, 4);
  loop.Begin();
  const auto start = Steady::now();
  const int64_t before = loop.answered();
  Random random(3);
  for (double at_ns = 0; at_ns < 1e9 * seconds;
       at_ns -= std::log1p(-random.Uniform()) * 1e9 / per_s)
    std::this_thread::sleep_until(start + std::chrono::nanoseconds(static_cast<int64_t>(at_ns)));
  const double rate = static_cast<double>(loop.answered() - before) / MsSince(start) * 1e3;
  loop.End();
  return rate;
}

/// Parts in turns: the peak, the overload.
OverloadFigures MeasureOverload(const SizedModel& m, const Overload& o) {
  OverloadFigures f;
  const auto engine = EngineOf(2);
  EXPECT_TRUE(
      engine->Load("m", m.source, {.instances = 2, .queue = o.queue, .warm_inputs = m.inputs})
          .ok());
  const Request calm{.model = "m", .inputs = m.inputs};
  Request urgent = calm;
  urgent.timeout_ns = o.timeout_ns;
  ClosedLoop(*engine, calm, 4).RateFor(0.5);
  for (int part = 0; part < kParts; ++part) {
    const double free_peak = ClosedLoop(*engine, calm, 4).RateFor(kPeakS);
    const double peak = PeakBeside(*engine, calm, kTimes * free_peak, kPeakS);
    OpenLoop load(*engine, urgent, kTimes * free_peak, static_cast<uint64_t>(part));
    const auto start = Steady::now();
    const Answers a = load.RunFor(kOverloadS);
    const double rate = static_cast<double>(a.of(State::kSucceeded)) / MsSince(start) * 1e3;
    f.goodput.push_back(rate / peak);
    f.of_free_peak.push_back(rate / free_peak);
    f.answers.Add(a);
    (part == 0 ? f.bytes_first : f.bytes_last) = ResidentBytes();
  }
  return f;
}

void TellOverload(const OverloadFigures& f, const std::string& what) {
  const Answers& a = f.answers;
  Tell("overload ", kTimes, " times, ", what, ": goodput over peak, median of ", kParts, " parts ",
       Percent(Quantile(f.goodput, 0.5)), ", least ", Percent(Quantile(f.goodput, 0)),
       " (over the peak where nobody makes requests: ", Percent(Quantile(f.of_free_peak, 0.5)),
       "); answers within p50 ", Ms(Quantile(a.ms, 0.5)), ", p99 ", Ms(Quantile(a.ms, 0.99)),
       "; of ", a.came(), " requests ", a.of(State::kSucceeded), " answered, ",
       a.of(State::kRejected), " rejected, ", a.of(State::kTimedOut), " timed out; memory ",
       MiB(f.bytes_first), ", then ", MiB(f.bytes_last));
  if (!a.reject_us.empty())
    Tell("  a rejection: p50 ", Us(Quantile(a.reject_us, 0.5)), ", p99 ",
         Us(Quantile(a.reject_us, 0.99)), ", p99.9 ", Us(Quantile(a.reject_us, 0.999)), ", most ",
         Us(Quantile(a.reject_us, 1)), "; of the processor p99 ",
         Us(Quantile(a.reject_cpu_us, 0.99)), ", most ", Us(Quantile(a.reject_cpu_us, 1)));
}

/// Demanded: memory flat, rejections within 1 ms, at least 90 % of the peak. Of rejections p99 is
/// judged: a thread that the system puts aside is told no sooner.
void JudgeOverload(const OverloadFigures& f, const std::string& what) {
  TellOverload(f, what);
  EXPECT_GE(Quantile(f.goodput, 0.5), 0.9) << what;
  EXPECT_LE(f.bytes_last - f.bytes_first, 4 << 20) << what;
  if (f.answers.reject_us.empty()) return;
  EXPECT_LE(Quantile(f.answers.reject_us, 0.99), 1000) << what;
  EXPECT_LE(Quantile(f.answers.reject_cpu_us, 0.999), 1000) << what;
}

TEST(EngineFigures, OverloadOfAShortQueue) {
  const SizedModel m = ChainOfMs(4, 32, 256);
  JudgeOverload(MeasureOverload(m, {.queue = {.max_requests = 16}}), "a queue of 16");
}

/// The queue holds more than can be answered in time: most of what waits ends by its deadline.
TEST(EngineFigures, OverloadOfRequestsWithDeadlines) {
  const SizedModel m = ChainOfMs(4, 32, 256);
  const auto timeout_ns = static_cast<int64_t>(20 * m.bare_ms * 1e6);
  JudgeOverload(MeasureOverload(m, {.timeout_ns = timeout_ns}),
                "the usual queue, deadlines of 20 runs");
}

}  // namespace
}  // namespace infer::engine::figures
