#include "tools/infer_bench/compare/saved.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lib/support/random.h"

namespace infer {
namespace {

SavedReport Report(std::vector<double> starts, const std::string& label = "m") {
  return {"f.json", "infer-bench/run@1", {{"cpu", "x"}}, {{label, "sha", std::move(starts), {}}}};
}

std::vector<double> Starts(Random& random, size_t n, double ms, double noise) {
  std::vector<double> v;
  for (size_t i = 0; i < n; ++i)
    v.push_back(ms * (1 + noise * (static_cast<double>(random.Below(2001)) / 1000 - 1)));
  return v;
}

SavedPair Only(const SavedReport& a, const SavedReport& b, const SavedOptions& options = {}) {
  std::vector<std::string> unmatched;
  const auto pairs = CompareSaved(a, b, options, unmatched);
  EXPECT_EQ(pairs.size(), 1u);
  return pairs.at(0);
}

TEST(Saved, FiveStartsOfEachMakeAVerdict) {
  Random random(1);
  const SavedReport a = Report(Starts(random, 8, 1.0, 0.004));
  EXPECT_EQ(Only(a, Report(Starts(random, 8, 1.05, 0.004))).conclusion.verdict, Verdict::kSlower);
  EXPECT_EQ(Only(a, Report(Starts(random, 8, 0.9, 0.004))).conclusion.verdict, Verdict::kFaster);
  EXPECT_EQ(Only(a, Report(Starts(random, 8, 1.0, 0.004))).conclusion.verdict, Verdict::kSame);
}

TEST(Saved, OneProcessMakesNone) {
  SavedReport a = Report({1.0}), b = Report({1.5});
  a.series[0].runs_ms.assign(1000, 1.0);
  b.series[0].runs_ms.assign(1000, 1.5);
  const SavedPair pair = Only(a, b);
  EXPECT_EQ(pair.conclusion.verdict, Verdict::kInconclusive);
  EXPECT_NE(pair.conclusion.reason.find("not independent"), std::string::npos);
  ASSERT_TRUE(pair.of_runs);
  EXPECT_NEAR(pair.of_runs->value, 0.5, 1e-9);
}

TEST(Saved, ANoiseFloorStandsInForStarts) {
  SavedOptions options;
  options.floor = [](const SavedSeries&) { return NoiseFloor{0.03, 12}; };
  EXPECT_EQ(Only(Report({1.0}), Report({1.10}), options).conclusion.verdict, Verdict::kSlower);
  EXPECT_EQ(Only(Report({1.0}), Report({1.02}), options).conclusion.verdict,
            Verdict::kInconclusive);
  EXPECT_EQ(Only(Report({1.0}), Report({1.001}), options).conclusion.verdict, Verdict::kSame);
}

TEST(Saved, EqualSidesAreSeldomCalledDifferent) {
  Random random(2);
  int alarms = 0;
  for (int i = 0; i < 2000; ++i) {
    const size_t n = 5 + random.Below(8);
    const Verdict v = Only(Report(Starts(random, n, 1, 0.05)), Report(Starts(random, n, 1, 0.05)))
                          .conclusion.verdict;
    alarms += v == Verdict::kSlower || v == Verdict::kFaster;
  }
  EXPECT_LE(alarms, 30);  // 1 %, and three standard deviations of 2,000 draws
}

TEST(Saved, AnotherMachineIsNoVerdict) {
  SavedReport b = Report({1.5, 1.5, 1.5, 1.5, 1.51, 1.52});
  b.machine = {{"cpu", "y"}};
  const SavedPair pair = Only(Report({1, 1, 1, 1.01, 1.02, 1}), b);
  EXPECT_EQ(pair.conclusion.verdict, Verdict::kInconclusive);
  EXPECT_NE(pair.conclusion.reason.find("different machines"), std::string::npos);
}

TEST(Saved, SeriesFindEachOtherByLabel) {
  SavedReport a = Report({1}, "x"), b = Report({1}, "y");
  a.series.push_back({"y", "", {2}, {}});
  b.series.push_back({"z", "", {3}, {}});
  std::vector<std::string> unmatched;
  const auto pairs = CompareSaved(a, b, {}, unmatched);
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].conclusion.title, "y");
  EXPECT_EQ(unmatched, (std::vector<std::string>{"only A has x", "only B has z"}));
}

TEST(Saved, ReportsOfASideAreItsStarts) {
  const auto merged = Merge({Report({1}), Report({2}), Report({3})});
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(merged->series[0].starts_ms, (std::vector<double>{1, 2, 3}));
  SavedReport other = Report({1});
  other.machine = {{"cpu", "y"}};
  EXPECT_FALSE(Merge({Report({1}), other}).ok());
}

}  // namespace
}  // namespace infer
