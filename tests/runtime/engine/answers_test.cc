/// Facts that routes read in answers, and the breaker.
#include "runtime/engine/answers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/engine/breaker.h"

namespace infer::engine {
namespace {

Datum Floats(Dims dims, std::initializer_list<float> values) {
  return Tensor::Of<float>(std::move(dims), values);
}

TEST(Confidence, IsThatOfTheLeastSureRow) {
  EXPECT_NEAR(*Confidence(Floats({2, 2}, {0.9f, 0.1f, 0.3f, 0.7f}), false), 0.7, 1e-6);
  EXPECT_NEAR(*Confidence(Floats({1, 2}, {2, 0}), true), 1 / (1 + std::exp(-2.0)), 1e-6);
  EXPECT_NEAR(*Confidence(Floats({1, 2}, {1000, 999}), true), 1 / (1 + std::exp(-1.0)), 1e-6);
}

TEST(Confidence, IsNotReadFromWhatHoldsNoProbabilities) {
  EXPECT_FALSE(Confidence(Floats({1, 2}, {0.9f, 0.2f}), false)) << "a sum of 1.1";
  EXPECT_FALSE(Confidence(Floats({1, 2}, {1.5f, -0.5f}), false));
  EXPECT_FALSE(Confidence(Floats({1, 2}, {std::nanf(""), 1}), true));
  EXPECT_FALSE(Confidence(Tensor::Int64s({1, 0}), false));
  EXPECT_FALSE(Confidence(Floats({0, 2}, {}), false));
  EXPECT_FALSE(Confidence(Tensor::Scalar(1.0f), false));
}

TEST(Compare, CountsRowsWithAnotherTopAndTheLargestDifference) {
  const Difference d = Compare({Floats({2, 2}, {4, 1, 1, 4})}, {Floats({2, 2}, {4, 1, 2, 1})});
  EXPECT_TRUE(d.comparable);
  EXPECT_EQ(d.rows, 2);
  EXPECT_EQ(d.other_top1, 1);
  EXPECT_DOUBLE_EQ(d.worst, 0.75);
  const float nan = std::nanf("");
  EXPECT_EQ(Compare({Floats({1, 1}, {nan})}, {Floats({1, 1}, {nan})}).worst, 0);
  EXPECT_EQ(Compare({Floats({1, 1}, {1})}, {Floats({1, 1}, {nan})}).worst,
            std::numeric_limits<double>::infinity());
}

TEST(Compare, OtherFormsAreNotComparable) {
  EXPECT_FALSE(Compare({Floats({2}, {1, 2})}, {Floats({1, 2}, {1, 2})}).comparable);
  EXPECT_FALSE(Compare({Floats({1}, {1})}, {Tensor::Int64s({1})}).comparable);
  EXPECT_FALSE(Compare({Floats({1}, {1})}, {}).comparable);
}

TEST(Breaker, OpensBehindFailuresInARowAndAProbeClosesIt) {
  const BreakerRules rules{.failures = 3, .open_ns = 100};
  Breaker b;
  for (const Blame blame :
       {Blame::kBad, Blame::kBad, Blame::kGood, Blame::kBad, Blame::kNeither, Blame::kBad})
    b.Ended(rules, blame, b.Sent(), 0);
  EXPECT_EQ(b.state(), Breaker::State::kClosed) << "never three in a row";
  b.Ended(rules, Blame::kBad, false, 10);
  EXPECT_EQ(b.state(), Breaker::State::kOpen);
  EXPECT_FALSE(b.Lets(rules, 109));
  b.Ended(rules, Blame::kGood, false, 50);
  EXPECT_FALSE(b.Lets(rules, 109)) << "sent before it opened";
  ASSERT_TRUE(b.Lets(rules, 110));
  EXPECT_TRUE(b.Sent());
  EXPECT_FALSE(b.Lets(rules, 500)) << "one probe at a time";
  b.Ended(rules, Blame::kBad, true, 120);
  EXPECT_FALSE(b.Lets(rules, 219));
  ASSERT_TRUE(b.Lets(rules, 220));
  EXPECT_TRUE(b.Sent());
  b.Ended(rules, Blame::kNeither, true, 230);
  ASSERT_TRUE(b.Lets(rules, 230)) << "a probe that told nothing";
  EXPECT_TRUE(b.Sent());
  b.Ended(rules, Blame::kGood, true, 240);
  EXPECT_EQ(b.state(), Breaker::State::kClosed);
  EXPECT_EQ(b.opened(), 2);
  EXPECT_FALSE(Check(BreakerRules{.failures = 0}).ok());
  EXPECT_FALSE(Check(BreakerRules{.open_ns = 0}).ok());
}

}  // namespace
}  // namespace infer::engine
