#include "tools/infer_bench/compare/live.h"

#include <gtest/gtest.h>

namespace infer {
namespace {

/// A start of a large model may take half of the budget, or all of it.
TEST(Live, FirstStartsMayTakeSixBudgets) {
  Decision decision({});
  EXPECT_EQ(LimitOf(decision, 10), 60);
  for (const double ratio : {0.3, -0.2, 0.1, -0.3, 0.2}) decision.Add(ratio);
  ASSERT_FALSE(decision.decided() || decision.suspecting());
  EXPECT_EQ(LimitOf(decision, 10), 60);
  decision.Add(-0.1);
  EXPECT_EQ(LimitOf(decision, 10), 10);
}

TEST(Live, SuspicionMayTakeTwoBudgets) {
  Decision decision({});
  const double ratios[] = {0.3, -0.2, 0.5, 0.3, 0.4, 0.2, 0.31, 0.29, 0.3, 0.31, 0.32, 0.3};
  for (const double ratio : ratios)
    if (!decision.suspecting()) decision.Add(ratio);
  ASSERT_TRUE(decision.suspecting());
  ASSERT_GE(decision.starts(), DecisionOptions::kLeastMaxStarts);
  EXPECT_EQ(LimitOf(decision, 10), 20);
}

}  // namespace
}  // namespace infer
