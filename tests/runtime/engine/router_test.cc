/// Which variant answers.
#include "runtime/engine/router.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "lib/support/strings.h"

namespace infer::engine {
namespace {

std::vector<Variant> Two(double a, double b) {
  return {{.model = "a", .weight = a, .ready = true}, {.model = "b", .weight = b, .ready = true}};
}

/// Within four standard deviations of what the share says.
void ExpectShare(int64_t count, int64_t of, double share) {
  const auto n = static_cast<double>(of);
  EXPECT_NEAR(static_cast<double>(count), n * share, 4 * std::sqrt(n * share * (1 - share)));
}

TEST(Split, HasTheSharesAndSticks) {
  constexpr int kKeys = 1'000'000;
  const auto variants = Two(1, 9);
  int64_t to_a = 0;
  for (int k = 0; k < kKeys; ++k) to_a += Split(variants, "s", Cat("user", k))->model == "a";
  ExpectShare(to_a, kKeys, 0.1);
  for (int k = 0; k < 1000; ++k)
    EXPECT_EQ(Split(variants, "s", Cat(k)), Split(variants, "s", Cat(k)));
}

TEST(Split, SaltsAreIndependentAndRaisedWeightsMoveOneWayOnly) {
  constexpr int kKeys = 100'000;
  const auto half = Two(1, 1), more = Two(3, 1);
  int64_t both = 0;
  for (int k = 0; k < kKeys; ++k) {
    both += Split(half, "s", Cat(k))->model == "a" && Split(half, "t", Cat(k))->model == "a";
    if (Split(half, "s", Cat(k))->model == "b") continue;
    ASSERT_EQ(Split(more, "s", Cat(k))->model, "a") << "whose weight was raised";
  }
  ExpectShare(both, kKeys, 0.25);
}

TEST(Split, GoesToNoneThatIsNotReadyAndLeavesOthersWhereTheyAre) {
  std::vector<Variant> three = Two(1, 1);
  three.push_back({.model = "c", .weight = 2, .ready = true});
  auto without = three;
  without[1].ready = false;
  for (int k = 0; k < 10'000; ++k) {
    const std::string before = Split(three, "s", Cat(k))->model,
                      after = Split(without, "s", Cat(k))->model;
    ASSERT_NE(after, "b");
    ASSERT_TRUE(before == "b" || after == before) << k;
  }
  for (Variant& v : without) v.ready = false;
  EXPECT_EQ(Split(without, "s", "k"), nullptr);
  EXPECT_EQ(Split({}, "s", "k"), nullptr);
}

TEST(LeastOfTwo, TakesTheLessLoadedForItsWeight) {
  Random random(1);
  auto variants = Two(1, 1);
  variants[0].outstanding = 5;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(LeastOfTwo(variants, random)->model, "b");
  variants[0].weight = 10;  // 6 / 10 against 1
  for (int i = 0; i < 100; ++i) EXPECT_EQ(LeastOfTwo(variants, random)->model, "a");
  variants[0].ready = false;
  EXPECT_EQ(LeastOfTwo(variants, random)->model, "b");
  variants[1].ready = false;
  EXPECT_EQ(LeastOfTwo(variants, random), nullptr);
}

TEST(LeastOfTwo, KeepsLoadsTogether) {
  Random random(2);
  std::vector<Variant> variants(8);
  for (Variant& v : variants) v.ready = true;
  for (int i = 0; i < 8000; ++i) ++const_cast<Variant*>(LeastOfTwo(variants, random))->outstanding;
  for (const Variant& v : variants) EXPECT_NEAR(static_cast<double>(v.outstanding), 1000, 8);
}

TEST(CanaryRules, NoSettingIsIgnored) {
  EXPECT_TRUE(Check(CanaryRules{}).ok());
  EXPECT_FALSE(Check(CanaryRules{.steps = {}}).ok());
  EXPECT_FALSE(Check(CanaryRules{.steps = {0.5, 0.5}}).ok());
  EXPECT_FALSE(Check(CanaryRules{.steps = {1}}).ok());
  EXPECT_FALSE(Check(CanaryRules{.least_samples = 0}).ok());
  EXPECT_FALSE(Check(CanaryRules{.most_error_rate = -1}).ok());
  EXPECT_FALSE(Check(CanaryRules{.most_slowdown = 0.9}).ok());
  EXPECT_FALSE(Check(CanaryRules{.failures_to_roll_back = 0}).ok());
}

TEST(Canary, IsPromotedStepByStep) {
  const CanaryRules rules{.steps = {0.1, 0.5}};
  Canary c;
  EXPECT_EQ(c.share(rules), 0.1);
  c = Judge(rules, c, {1000, 0, 10}, {99, 99, 10});
  EXPECT_EQ(c.share(rules), 0.1) << "too few to be judged";
  EXPECT_EQ(c.why, "99 of 100 samples");
  c = Judge(rules, c, {1000, 10, 10}, {100, 2, 12});
  EXPECT_EQ(c.share(rules), 0.5);
  c = Judge(rules, c, {1000, 0, 10}, {100, 0, 9});
  EXPECT_EQ(c.phase, Canary::Phase::kPromoted);
  EXPECT_EQ(c.share(rules), 1);
}

TEST(Canary, IsRolledBackForErrorsAndForSlowness) {
  const CanaryRules rules{.failures_to_roll_back = 2};
  for (const Seen& bad : {Seen{100, 5, 10}, Seen{100, 0, 13}}) {
    Canary c = Judge(rules, {}, {1000, 0, 10}, bad);
    EXPECT_EQ(c.phase, Canary::Phase::kRunning);
    EXPECT_EQ(c.failures, 1);
    const Canary better = Judge(rules, c, {1000, 0, 10}, {100, 0, 10});
    EXPECT_EQ(better.failures, 0) << "in a row";
    c = Judge(rules, c, {1000, 0, 10}, bad);
    EXPECT_EQ(c.phase, Canary::Phase::kRolledBack);
    EXPECT_EQ(c.share(rules), 0);
    EXPECT_EQ(Judge(rules, c, {1000, 0, 10}, {100, 0, 10}).phase, Canary::Phase::kRolledBack);
  }
}

}  // namespace
}  // namespace infer::engine
