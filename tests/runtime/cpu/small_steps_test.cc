/// Which steps run on one lane: those that are over before another has woken.
#include "runtime/cpu/exec/small_steps.h"

#include <gtest/gtest.h>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "runtime/cpu/backend.h"
#include "runtime/plan_ir/executor_program.h"

namespace infer {
namespace {

class SmallSteps : public testing::Test {
 protected:
  SmallSteps() : budget_(LaneBudget()) { SetLaneBudget(2); }
  ~SmallSteps() override { SetLaneBudget(budget_); }
  const int budget_;
};

TEST_F(SmallSteps, TheEstimateFollowsTheCost) {
  const Cost small{1000, 4000, 4000}, more_work{1000000, 4000, 4000},
      more_bytes{1000, 4000, 400000};
  const double us = EstimateMicroseconds(small, false);
  EXPECT_GT(us, 0);
  EXPECT_GT(EstimateMicroseconds(more_work, false), us);
  EXPECT_GT(EstimateMicroseconds(more_bytes, false), us);
  EXPECT_GT(EstimateMicroseconds(small, true), us);
}

TEST_F(SmallSteps, HaveOneLaneWhileTheyArePlanned) {
  const LaneLease lease(2);
  ASSERT_EQ(CurrentLanes(), 2);
  const double wake = WakeMicroseconds();
  EXPECT_GT(wake, 0);
  for (int i = 0; i < 100; ++i) EXPECT_LE(WakeMicroseconds(), wake) << "the least counts";
  StepLanes lanes(2);
  const int64_t large = 1'000'000'000'000;
  EXPECT_TRUE(lanes.Begin({10, 10, 10}, false));
  EXPECT_EQ(CurrentLanes(), 1);
  EXPECT_FALSE(lanes.Begin({large, 10, 10}, false));
  EXPECT_EQ(CurrentLanes(), 2);
  EXPECT_FALSE(lanes.Begin({10, large, 10}, true));
  EXPECT_TRUE(lanes.Begin({10, 10, 10}, true));
  EXPECT_EQ(CurrentLanes(), 1);
  EXPECT_FALSE(lanes.Begin({}, false)) << "nothing is known of its cost";
  EXPECT_FALSE(StepLanes(1).Begin({10, 10, 10}, false)) << "there is one lane only";
}

/// Small steps beside one that writes 32 MiB.
TEST_F(SmallSteps, OfAPlan) {
  const OpRegistry ops = AllOps();
  const auto compiled = MakeCpuBackend()->Compile(*ParseGraph(R"(
    graph g(x: f32[1024,8], w: f32[8,8192], s: f32[3]) -> (a, b) {
      a = Softmax(s)
      b = MatMul(x, w)
    })",
                                                              ops),
                                                  {.threads = 2});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const auto& program = dynamic_cast<const ExecutorProgram&>(**compiled);
  const auto plan = program.PlanFor(std::vector<Dims>{{1024, 8}, {8, 8192}, {3}});
  ASSERT_TRUE(plan.ok());
  bool some = false, others = false;
  for (const PlannedLaunch& l : (*plan)->frame->launches) {
    const bool product = program.plan().steps[l.step].main->Is("MatMul");
    EXPECT_EQ(l.alone, !product) << program.steps()[l.step].op;
    some |= l.alone;
    others |= !l.alone;
  }
  EXPECT_TRUE(some && others);
}

/// Where all are small a run asks for one lane, and another may run beside it.
TEST_F(SmallSteps, AProgramOfSmallStepsTakesOneLane) {
  const OpRegistry ops = AllOps();
  const auto program = *MakeCpuBackend()->Compile(
      *ParseGraph("graph g(x: f32[8]) -> (y) { a = Exp(x) y = Tanh(a) }", ops), {.threads = 2});
  const auto context = *program->NewContext();
  ASSERT_TRUE(context->BindInput(0, Tensor(DType::kF32, {8})).ok());
  ASSERT_TRUE(context->Run().ok());
  const auto plan = *dynamic_cast<const ExecutorProgram&>(*program).PlanFor(std::vector<Dims>{{8}});
  for (const PlannedLaunch& l : plan->frame->launches) EXPECT_TRUE(l.alone);
}

}  // namespace
}  // namespace infer
