// Which variant of a sweep is recommended, of measurements that are given.
#include "tools/common/sweep_choice.h"

#include <gmock/gmock.h>

namespace infer {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kMaxDrop = 0.01;

struct Facts {
  std::string id;
  double low = 1, speed_up = 1, high = 1;
  int64_t bytes = 1000;
  double top1 = 0.9, mcnemar_p = 1, agreement = 1;
};

Variant Made(const Facts& f) {
  Variant v;
  v.spec = {.id = f.id, .mode = f.id == "fp32" ? "" : "static"};
  v.measured = {{"bytes", f.bytes},
                {"speed_up", {{"median", f.speed_up}, {"median_ci95", {f.low, f.high}}}},
                {"accuracy_score", f.top1},
                {"accuracy_delta", f.top1 - 0.9},
                {"accuracy",
                 {{"task",
                   {{"drop", 0.9 - f.top1},
                    {"mcnemar_p", f.mcnemar_p},
                    {"lost", 3},
                    {"gained", 1},
                    {"samples", 600}}},
                  {"outputs", {{{"rows", {{"top1_agreement", f.agreement}}}}}}}}};
  return v;
}

/// The first is the model as it came.
Recommendation Choose(std::vector<Facts> facts) {
  facts.insert(facts.begin(), Facts{.id = "fp32"});
  std::vector<Variant> variants;
  for (const Facts& f : facts) variants.push_back(Made(f));
  Judge(variants, kMaxDrop);
  return Recommend(variants);
}

TEST(SweepChoice, TheFastestThatKeepsTheAccuracy) {
  const Recommendation r = Choose({{"slow", 1.4, 1.5, 1.6, 300},
                                   {"fast", 1.9, 2.0, 2.1, 300},
                                   {"wrong", 2.9, 3.0, 3.1, 200, 0.8, 0.01}});
  EXPECT_EQ(r.id, "fast");
  EXPECT_EQ(r.why,
            "the fastest that keeps the accuracy: 2.00 [1.90, 2.10] x FP32, 0.30 x its size, top-1 "
            "0.00 points (lost 3, gained 1 of 600, p = 1.00)");
}

TEST(SweepChoice, ALossThatMayBeChanceIsKept) {
  const Facts fast{"fast", 1.9, 2.0, 2.1, 300, 0.88, 0.2, 0.99};
  EXPECT_EQ(Choose({fast}).id, "fast");
  for (const auto& [p, agreement] : {std::pair{0.04, 0.99}, {0.2, 0.97}}) {
    Facts other = fast;
    other.mcnemar_p = p, other.agreement = agreement;
    const Recommendation r = Choose({other});
    EXPECT_EQ(r.id, "fp32");
    EXPECT_EQ(r.why, "no variant that keeps the accuracy is faster or smaller");
  }
}

TEST(SweepChoice, AsFastAndSmaller) {
  const Recommendation r = Choose({{"fast", 1.9, 2.0, 2.1, 300}, {"small", 1.8, 1.9, 1.95, 200}});
  EXPECT_EQ(r.id, "small");
  EXPECT_THAT(r.why, HasSubstr("as fast as the fastest (fast) within the intervals, and smaller"));
}

TEST(SweepChoice, OfThoseWithinOnePercentTheMostAccurate) {
  // 51 bytes less are not worth an accuracy that is lower.
  EXPECT_EQ(
      Choose({{"exact", 1.9, 2.0, 2.1, 30051, 0.9}, {"small", 1.9, 2.0, 2.1, 30000, 0.895}}).id,
      "exact");
  EXPECT_EQ(
      Choose({{"small", 1.9, 2.0, 2.1, 30000, 0.895}, {"exact", 1.9, 2.0, 2.1, 30051, 0.9}}).id,
      "exact");
  EXPECT_EQ(
      Choose({{"small", 1.9, 2.0, 2.1, 30000, 0.895}, {"exact", 1.9, 2.0, 2.1, 30301, 0.9}}).id,
      "small");
  // As accurate: the one that is better in what is left.
  EXPECT_EQ(Choose({{"larger", 1.9, 2.0, 2.1, 30051}, {"small", 1.9, 2.0, 2.1, 30000}}).id,
            "small");
}

TEST(SweepChoice, AReasonSaysNotSmallerOfWhatIsNot) {
  const Recommendation r =
      Choose({{"fast", 1.9, 2.0, 2.1, 30000, 0.895}, {"exact", 1.8, 1.9, 1.95, 30051, 0.9}});
  EXPECT_EQ(r.id, "exact");
  EXPECT_THAT(r.why, Not(HasSubstr("smaller")));
  EXPECT_THAT(r.why,
              HasSubstr("as fast as the fastest (fast) within the intervals, and more accurate"));
}

TEST(SweepChoice, WhatMayBeSlowerThanFp32IsNoFaster) {
  // Smaller, though, and not slower beyond doubt.
  EXPECT_EQ(Choose({{"fast", 0.95, 1.2, 1.4, 300}}).id, "fast");
  EXPECT_EQ(Choose({{"slow", 0.8, 0.9, 0.99, 300}}).id, "fp32");
}

TEST(SweepChoice, OneThatWasNotMadeIsNoChoice) {
  std::vector<Variant> variants = {Made({.id = "fp32"}), Made({"fast", 1.9, 2.0, 2.1, 300})};
  variants[1].failure = "no data";
  variants[1].measured = Json::object();
  Judge(variants, kMaxDrop);
  EXPECT_EQ(Recommend(variants).id, "fp32");
  EXPECT_FALSE(variants[1].pareto);
}

TEST(SweepChoice, WithoutDataNothingIsKnownToKeepTheAccuracy) {
  std::vector<Variant> variants = {Made({.id = "fp32"}), Made({"fast", 1.9, 2.0, 2.1, 300})};
  for (Variant& v : variants) v.measured.erase("accuracy");
  Judge(variants, kMaxDrop);
  const Recommendation r = Recommend(variants);
  EXPECT_EQ(r.id, "fp32");
  EXPECT_EQ(r.why, "without data no variant is known to keep the accuracy");
}

TEST(SweepChoice, WithoutLabelsDecibelsDecide) {
  for (const double decibels : {24.9, 25.1}) {
    std::vector<Variant> variants = {Made({.id = "fp32"}), Made({"fast", 1.9, 2.0, 2.1, 300})};
    for (Variant& v : variants)
      v.measured["accuracy"] = {{"outputs", {{{"sqnr_db", "inf"}}, {{"sqnr_db", decibels}}}}};
    Judge(variants, kMaxDrop);
    EXPECT_EQ(Recommend(variants).id, decibels < 25 ? "fp32" : "fast");
    EXPECT_EQ(Recommend(variants).why.find("SQNR 25.1 dB") != std::string::npos, decibels > 25);
  }
}

}  // namespace
}  // namespace infer
