#include "quant/prune/widths.h"

#include <gmock/gmock.h>

namespace infer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Widths, StayMultiplesWhereThereAreEnough) {
  EXPECT_THAT(LevelsOf(64, 1, 64, 8), ElementsAre(8, 16, 24, 32, 40, 48, 56));
  EXPECT_THAT(LevelsOf(20, 1, 20, 8), ElementsAre(4, 12));
  EXPECT_THAT(LevelsOf(5, 1, 5, 8), ElementsAre(1, 3));                         // multiples of 2
  EXPECT_THAT(LevelsOf(60, 1, 62, 8), ElementsAre(6, 14, 22, 30, 38, 46, 54));  // 2 cannot go
  EXPECT_THAT(LevelsOf(4, 16, 64, 8), ElementsAre(1, 2, 3));  // heads go as they are
  EXPECT_THAT(LevelsOf(1, 8, 8, 8), ElementsAre());
}

TEST(Widths, WorkIsAProductOfShares) {
  const std::vector<WidthCurve> curves = {{10, {}}, {4, {}}};
  const std::vector<WorkItem> items = {
      {100, {{0, 1}}}, {200, {{0, 1}, {1, 1}}}, {50, {{1, 2}}}, {7, {}}};
  EXPECT_NEAR(WorkOf(items, curves, std::vector<int64_t>{0, 0}), 357, 1e-9);
  EXPECT_NEAR(WorkOf(items, curves, std::vector<int64_t>{5, 0}), 50 + 100 + 50 + 7, 1e-9);
  EXPECT_NEAR(WorkOf(items, curves, std::vector<int64_t>{5, 2}), 50 + 50 + 12.5 + 7, 1e-9);
}

TEST(Widths, WhatCostsLeastForItsWorkGoesFirst) {
  const std::vector<WorkItem> items = {{100, {{0, 1}}}, {100, {{1, 1}}}};
  const std::vector<WidthCurve> curves = {{4, {{1, 1.0}, {2, 2.0}, {3, 9.0}}},
                                          {4, {{1, 0.1}, {2, 5.0}, {3, 6.0}}}};
  const auto w = AllocateWidths(items, curves, 150);
  ASSERT_TRUE(w.ok());
  EXPECT_THAT(*w, ElementsAre(1, 1));
  const auto far = AllocateWidths(items, curves, 10);
  EXPECT_EQ(far.status().code(), Code::kUnsupported);
  EXPECT_THAT(far.status().message(), HasSubstr("leave 25 %, the goal is 5 %"));
}

TEST(Widths, SavingsBeyondTheGoalDoNotCount) {
  const std::vector<WorkItem> items = {{100, {{0, 1}}}, {20, {{1, 1}}}};
  // The large step is the cheaper one per work, but only a tenth of it is needed.
  const std::vector<WidthCurve> curves = {{10, {{9, 9.0}}}, {2, {{1, 1.5}}}};
  const auto w = AllocateWidths(items, curves, 110);
  ASSERT_TRUE(w.ok());
  EXPECT_THAT(*w, ElementsAre(0, 1));
}

TEST(Widths, WhatLaterStepsMadeNeedlessIsTakenBack) {
  // The cheap step of the first group comes first and is not enough; that of the second is, alone.
  const std::vector<WorkItem> items = {{100, {{0, 1}}}, {100, {{1, 1}}}};
  const std::vector<WidthCurve> curves = {{10, {{1, 0.1}}}, {10, {{5, 2}}}};
  EXPECT_THAT(*AllocateWidths(items, curves, 150), ElementsAre(0, 5));
  EXPECT_THAT(*AllocateWidths(items, curves, 145), ElementsAre(1, 5));
}

}  // namespace
}  // namespace infer
