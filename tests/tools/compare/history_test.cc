#include "tools/infer_bench/compare/history.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/support/strings.h"

namespace infer {
namespace {

class HistoryFile : public testing::Test {
 protected:
  HistoryFile()
      : path_(testing::TempDir() +
              Cat(testing::UnitTest::GetInstance()->current_test_info()->name(), getpid(),
                  ".jsonl")) {
    std::filesystem::remove(path_);
  }
  ~HistoryFile() override { std::filesystem::remove(path_); }

  static HistoryEntry Entry(double effect, const std::string& series = "s", double b_ms = 1,
                            const std::string& kind = "live") {
    return {kind, {{"name", series}}, effect, b_ms, 8, "same", "2026-01-01T00:00:00Z"};
  }

  std::string path_;
};

TEST_F(HistoryFile, AFileThatIsNotThereIsEmpty) {
  const auto h = ReadHistory(path_);
  ASSERT_TRUE(h.ok());
  EXPECT_TRUE(h->entries.empty() && h->damaged.empty());
}

TEST_F(HistoryFile, WhatIsAppendedIsRead) {
  ASSERT_TRUE(AppendHistory(path_, Entry(0.01)).ok());
  ASSERT_TRUE(AppendHistory(path_, Entry(-0.02, "t", 2.5)).ok());
  const auto h = ReadHistory(path_);
  ASSERT_TRUE(h.ok() && h->entries.size() == 2);
  EXPECT_EQ(h->entries[0].effect, 0.01);
  EXPECT_EQ(h->entries[1].series, (Json{{"name", "t"}}));
  EXPECT_EQ(h->entries[1].b_ms, 2.5);
}

TEST_F(HistoryFile, DamagedLinesAreNamedAndKept) {
  ASSERT_TRUE(AppendHistory(path_, Entry(0.01)).ok());
  {
    std::ofstream out(path_, std::ios::app);
    out << "{\"schema\":\"infer-bench/history@9\"}\n[1]\n\n{\"schema\":\"infer-bench/history@1\","
           "\"effect\":\"much\"}\n{\"schema\":\"infer-be";  // cut off in the middle
  }
  ASSERT_TRUE(AppendHistory(path_, Entry(0.03)).ok());
  const auto h = ReadHistory(path_);
  ASSERT_TRUE(h.ok());
  ASSERT_EQ(h->entries.size(), 2u);
  EXPECT_EQ(h->entries[1].effect, 0.03);
  ASSERT_EQ(h->damaged.size(), 4u);
  EXPECT_EQ(h->damaged[0].substr(0, 7), "line 2:");
  EXPECT_EQ(h->damaged[3].substr(0, 7), "line 6:");
}

TEST_F(HistoryFile, ManyMayAppendAtOnce) {
  constexpr int kThreads = 8, kEach = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i)
        EXPECT_TRUE(AppendHistory(path_, Entry(0.001 * t, std::string(500, 'x'))).ok());
    });
  for (std::thread& t : threads) t.join();
  const auto h = ReadHistory(path_);
  ASSERT_TRUE(h.ok());
  EXPECT_EQ(h->entries.size(), static_cast<size_t>(kThreads * kEach));
  EXPECT_TRUE(h->damaged.empty());
}

TEST_F(HistoryFile, AFolderIsNoHistory) {
  EXPECT_FALSE(AppendHistory(testing::TempDir(), Entry(0)).ok());
}

TEST_F(HistoryFile, TheFloorIsLearntFromEightOfTheSeries) {
  std::vector<HistoryEntry> all;
  const Json series = {{"name", "s"}};
  for (int i = 0; i < 7; ++i) all.push_back(Entry(i % 2 ? 0.01 : -0.01));
  for (int i = 0; i < 20; ++i) all.push_back(Entry(0.5, "another"));
  EXPECT_FALSE(LearnFloor(all, series, "live"));
  all.push_back(Entry(0.01));
  const auto floor = LearnFloor(all, series, "live");
  ASSERT_TRUE(floor);
  EXPECT_EQ(floor->comparisons, 8);
  EXPECT_NEAR(floor->share, 3 * 1.4826 * 0.01, 0.002);
  // Three real regressions among twelve do little.
  for (int i = 0; i < 3; ++i) all.push_back(Entry(0.4));
  EXPECT_LT(LearnFloor(all, series, "live")->share, 0.05);
}

TEST_F(HistoryFile, OfFilesTheStepsFromOneToTheNextCount) {
  std::vector<HistoryEntry> all;
  for (int i = 0; i < 9; ++i) all.push_back(Entry(0.3, "s", i % 2 ? 1.02 : 1.0, "files"));
  const auto floor = LearnFloor(all, {{"name", "s"}}, "files");
  ASSERT_TRUE(floor);
  EXPECT_EQ(floor->comparisons, 8);
  EXPECT_NEAR(floor->share, std::expm1(3 * 1.4826 * std::log(1.02)), 1e-9);
  EXPECT_FALSE(LearnFloor(all, {{"name", "s"}}, "live"));
}

TEST_F(HistoryFile, SeriesTellTheFloorOfTheirTime) {
  History h;
  for (int i = 0; i < 60; ++i) {
    h.entries.push_back(Entry(i % 2 ? 0.01 : -0.01));
    h.entries.push_back(Entry(0, "t", i < 30 ? 1 : 2, "files"));
  }
  h.damaged = {"line 3: no JSON object"};
  const Json j = HistorySeries(h);
  EXPECT_EQ(j["damaged"].size(), 1u);
  ASSERT_EQ(j["series"].size(), 2u);
  for (const size_t k : {0u, 1u}) {
    const Json& s = j["series"][k];
    ASSERT_EQ(s["entries"].size(), 60u);
    std::vector<HistoryEntry> before;
    for (size_t i = 0; i < 60; ++i) {
      // The same as of all entries before, though HistorySeries looks at the latest alone.
      const auto floor = LearnFloor(before, s["series"], s["kind"]);
      EXPECT_EQ(s["entries"][i]["floor"], floor ? Json(floor->share) : Json()) << k << " " << i;
      before.push_back(h.entries[2 * i + k]);
    }
  }
  EXPECT_TRUE(j["series"][0]["entries"][7]["floor"].is_null());
  EXPECT_GT(j["series"][0]["entries"][8]["floor"], 0.04);
}

}  // namespace
}  // namespace infer
