#include "tools/bench/sampling.h"

#include <chrono>
#include <thread>

#include "lib/support/random.h"

namespace infer::bench {
namespace {

using testing::HasSubstr;

/// Runs the judge on times until it is satisfied; how many it took.
template <typename F>
int RunsUntilStable(WarmUpJudge& judge, F ms, int most = 5000) {
  for (int i = 0; i < most; ++i)
    if (judge.Add(ms(i))) return i + 1;
  return most;
}

TEST(WarmUp, SettlesAtOnceWhereNothingChanges) {
  WarmUpJudge judge;
  EXPECT_EQ(RunsUntilStable(judge, [](int) { return 10.0; }), 10);
  EXPECT_EQ(judge.verdict(), WarmUpEnd::kSettled);
  EXPECT_EQ(judge.last_ms(), 10.0);
}

TEST(WarmUp, ShortRunsFillWindowsOf25Ms) {
  WarmUpJudge judge;
  EXPECT_NEAR(RunsUntilStable(judge, [](int) { return 0.1; }), 500, 2);
}

TEST(WarmUp, WaitsWhileTimesFall) {
  WarmUpJudge judge;
  const int runs = RunsUntilStable(judge, [](int i) { return 10.0 + 20.0 * std::exp(-i / 20.0); });
  EXPECT_GE(runs, 60);  // exp(-3): 1 ms above
  EXPECT_LE(runs, 150);
}

TEST(WarmUp, NoiseDoesNotKeepItForever) {
  WarmUpJudge judge;
  Random random(3);
  EXPECT_LT(RunsUntilStable(judge, [&](int) { return 10 * std::exp(0.3 * random.Normal()); }), 400);
}

TEST(Sampling, EnoughRunsAndEnoughTime) {
  int calls = 0;
  const auto action = [&]() -> Status {
    ++calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {};
  };
  SamplingOptions options{.min_runs = 10, .min_time_s = 0.03, .fixed_warmup_runs = 2};
  auto s = Sample(action, options);
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->warmup.samples.size(), 2u);
  EXPECT_EQ(s->warmup.ended, WarmUpEnd::kCount);
  EXPECT_GE(s->samples.size(), 10u);
  EXPECT_GE(s->samples.at_ms.back() + s->samples.ms.back(), 30 - 1);
  EXPECT_EQ(s->ended, "runs and time");
  EXPECT_EQ(calls, static_cast<int>(s->samples.size()) + 2);
  for (size_t i = 1; i < s->samples.size(); ++i)
    EXPECT_GE(s->samples.at_ms[i], s->samples.at_ms[i - 1] + s->samples.ms[i - 1]);

  options = {.runs = 7, .min_time_s = 100, .fixed_warmup_runs = 0};
  s = Sample(action, options);
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->samples.size(), 7u);
  EXPECT_EQ(s->ended, "runs");
  EXPECT_EQ(s->first_ms, s->samples.ms[0]);
}

TEST(Sampling, AStopKeepsWhatThereIs) {
  std::stop_source stop;
  int calls = 0;
  const auto action = [&]() -> Status {
    if (++calls < 5) return {};
    stop.request_stop();
    return Cancelled("stopped");
  };
  auto s = Sample(action, {.fixed_warmup_runs = 1, .stop = stop.get_token()});
  ASSERT_TRUE(s.ok());
  EXPECT_TRUE(s->interrupted);
  EXPECT_EQ(s->ended, "stopped");
  EXPECT_EQ(s->samples.size(), 3u);
}

TEST(Sampling, AFailureEndsIt) {
  const auto s = Sample([]() -> Status { return Internal("broken"); }, {});
  EXPECT_THAT(s.status().message(), HasSubstr("broken"));
}

}  // namespace
}  // namespace infer::bench
