#include "tools/infer_bench/compare/saved.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "lib/support/file.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

SavedReport Report(std::vector<double> starts, const std::string& label = "m") {
  return {"f.json", "infer-bench/run@1", {{"cpu", "x"}}, {{label, "sha", std::move(starts), {}}}};
}

/// A report of `run` with a cell for each, as it is read from its file.
SavedReport ReadRun(const std::vector<Json>& cells, const Json& more = Json::object()) {
  Json report = {{"schema", "infer-bench/run@2"}, {"results", Json::array()}};
  for (const Json& cell : cells) {
    Json result = {{"model", {{"path", "m.onnx"}, {"sha256", "x"}}},
                   {"threads", 1},
                   {"extents", Json::object()},
                   {"seq", Json::object()},
                   {"samples_ms", {1.0}}};
    result.update(cell);
    report["results"].push_back(std::move(result));
  }
  report.update(more);
  const std::string path = testing::TempDir() + Cat("saved_test", getpid(), ".json");
  EXPECT_TRUE(WriteFileAtomically(path, report.dump()).ok());
  auto read = ReadSavedReport(path, 1);
  std::filesystem::remove(path);
  EXPECT_TRUE(read.ok()) << read.status().message();
  return read.ok() ? *std::move(read) : SavedReport();
}

/// Series of one label, of models that a hash tells apart.
SavedReport Models(const std::vector<std::pair<std::string, double>>& models) {
  SavedReport r = Report({});
  r.series.clear();
  for (const auto& [sha, ms] : models) r.series.push_back({"m", sha, {ms}, {}});
  return r;
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

TEST(Saved, LengthsBoundBySeqAreSeriesOfTheirOwn) {
  const SavedReport r =
      ReadRun({{{"seq", {{"length", 64}}}}, {{"seq", {{"length", 128}}}}, Json::object()});
  ASSERT_EQ(r.series.size(), 3u);
  EXPECT_EQ(r.series[0].label, "m.onnx threads=1 seq={\"length\":64}");
  EXPECT_EQ(r.series[1].label, "m.onnx threads=1 seq={\"length\":128}");
  EXPECT_EQ(r.series[2].label, "m.onnx threads=1");
  SavedReport again = r;
  again.content ^= 1;
  const auto merged = Merge({r, again});
  ASSERT_TRUE(merged.ok());
  for (const SavedSeries& s : merged->series) EXPECT_EQ(s.starts_ms.size(), 2u) << s.label;
}

TEST(Saved, ACopyOfAReportIsNoOtherStart) {
  const SavedReport r = ReadRun({Json::object()});
  EXPECT_EQ(Merge({r, r}).status().code(), Code::kInvalidArgument);
}

TEST(Saved, RunsWithoutColdStartsAreRead) {
  const SavedReport r = ReadRun({{{"cold", nullptr}}});
  ASSERT_EQ(r.series.size(), 1u);
  EXPECT_EQ(r.series[0].label, "m.onnx threads=1");
}

TEST(Saved, OnlyUnusualSettingsAreTold) {
  const SavedReport usual =
      ReadRun({Json::object()}, {{"device", "cpu"}, {"settings", {{"level", 2}}}});
  EXPECT_EQ(usual.series.at(0).settings, Json::object());
  EXPECT_EQ(ReadRun({Json::object()}).series.at(0).settings, Json::object());
  const SavedReport other =
      ReadRun({Json::object()}, {{"device", "reference"}, {"settings", {{"level", 1}}}});
  EXPECT_EQ(other.series.at(0).settings, (Json{{"device", "reference"}, {"level", 1}}));
  EXPECT_EQ(other.series[0].label, usual.series[0].label);  // A may be one and B the other
  EXPECT_FALSE(Merge({usual, other}).ok());
}

TEST(Saved, StartsFindTheirModelWhereOneLabelHasSeveral) {
  const auto merged = Merge({Models({{"x", 1}, {"y", 2}}), Models({{"y", 2.1}, {"x", 1.1}})});
  ASSERT_TRUE(merged.ok());
  ASSERT_EQ(merged->series.size(), 2u);
  EXPECT_EQ(merged->series[0].starts_ms, (std::vector<double>{1, 1.1}));
  EXPECT_EQ(merged->series[1].starts_ms, (std::vector<double>{2, 2.1}));
  // The same model twice: in order.
  const auto twice = Merge({Models({{"x", 1}, {"x", 2}}), Models({{"x", 1.1}, {"x", 2.1}})});
  ASSERT_TRUE(twice.ok());
  EXPECT_EQ(twice->series[0].starts_ms, (std::vector<double>{1, 1.1}));
  // B may be new versions of both: its order tells which is which.
  std::vector<std::string> unmatched;
  const auto pairs = CompareSaved(*merged, Models({{"x2", 3}, {"y", 4}}), {}, unmatched);
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].b.starts_ms, (std::vector<double>{3}));
  EXPECT_EQ(pairs[1].b.starts_ms, (std::vector<double>{4}));
}

}  // namespace
}  // namespace infer
