/// Profiles against what they promise: steps follow each other, a trace holds every launch, a step
/// has a floor. How much time they explain and cost: tests/tools/timing.
#include "tools/common/profile.h"

#include <gmock/gmock.h>

#include "tests/tools/programs.h"

namespace infer {
namespace {

TEST(Profile, StepsFollowEachOther) {
  const CompiledModel c = CompiledZoo("squeezenet1.1", 64);
  const auto p = ProfileRuns("squeezenet1.1", *c.program, *c.run, {});
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_GT(p->wall_ms, 0);
  EXPECT_GE(p->unexplained, 0);
  EXPECT_LT(p->unexplained, 1);
  ASSERT_FALSE(p->timeline.empty());
  for (size_t i = 1; i < p->timeline.size(); ++i)
    EXPECT_GE(p->timeline[i].start_ms + 1e-6,
              p->timeline[i - 1].start_ms + p->timeline[i - 1].duration_ms);
}

TEST(Profile, TraceHoldsEveryLaunch) {
  const CompiledModel c = CompiledZoo("squeezenet1.1", 64);
  auto p = ProfileRuns("a \"name\"", *c.program, *c.run, {});
  ASSERT_TRUE(p.ok()) << p.status().message();
  const Json trace = Json::parse(ChromeTrace({*p, *p}));
  size_t events = 0;
  for (const Json& e : trace.at("traceEvents")) {
    if (e.at("ph") == "M") continue;
    ++events;
    EXPECT_EQ(e.at("ph"), "X");
    EXPECT_GE(e.at("ts").get<double>() + 1e-3, 0);
    EXPECT_LE(e.at("ts").get<double>() + e.at("dur").get<double>(),
              1e3 * 1e3 * std::max(1.0, p->wall_ms));
    EXPECT_FALSE(e.at("args").at("kernel").get<std::string>().empty());
  }
  EXPECT_EQ(events, 2 * p->timeline.size());
  EXPECT_GE(p->timeline.size(), c.program->steps().size() / 2);
}

TEST(Roofline, FloorIsTheLongerOfWorkAndTraffic) {
  Roofline r;
  r.lanes = 1;
  r.f32_gflops = 100;
  r.int8_gops = 400;
  r.levels = {{"L1", 1000, 200}, {"L2", 100'000, 100}, {"memory", 0, 10}};
  StepInfo step;
  step.precision = "f32";
  const Cost work = {.flops = 1'000'000, .bytes_read = 500, .bytes_written = 500};
  EXPECT_DOUBLE_EQ(r.FloorMs(step, work, 0), 0.01);
  step.precision = "u8s8s32";
  EXPECT_DOUBLE_EQ(r.FloorMs(step, work, 0), 0.0025);
  const Cost copy = {.bytes_read = 50'000, .bytes_written = 50'000};
  EXPECT_DOUBLE_EQ(r.FloorMs(step, copy, 0), 0.001);
  // Weights of a program that L2 does not hold come from memory.
  step.constant_bytes = 50'000;
  EXPECT_DOUBLE_EQ(r.FloorMs(step, copy, 1'000'000), 0.005 + 0.0005);
  EXPECT_EQ(r.LevelOf(1000).name, "L1");
  EXPECT_EQ(r.LevelOf(1001).name, "L2");
  EXPECT_EQ(r.LevelOf(int64_t{1} << 40).name, "memory");
}

}  // namespace
}  // namespace infer
