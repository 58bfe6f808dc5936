/// Lines of progress in logs, and the bar on a terminal.
#include "tools/common/progress_display.h"

#include <gtest/gtest.h>

namespace infer {
namespace {

using std::chrono::seconds;
constexpr ProgressDisplay::Clock::time_point kStart{};

TEST(ProgressDisplay, ALogGetsALineNowAndThen) {
  ProgressDisplay p(ProgressDisplay::To::kLog, seconds(30), kStart);
  const auto at = [&](int s, std::string_view step, int64_t done) {
    return p.Text("infer-opt prune", step, done, 40, kStart + seconds(s));
  };
  EXPECT_EQ(at(1, "layers", 0), "");
  EXPECT_EQ(at(29, "layers", 9), "");
  EXPECT_EQ(at(31, "layers", 10), "infer-opt prune: layers 10/40, 1:30 left\n");
  EXPECT_EQ(at(60, "layers", 20), "");
  EXPECT_EQ(at(62, "costs", 0), "infer-opt prune: costs 0/40\n");
  EXPECT_EQ(at(200, "costs", 40), "");
}

TEST(ProgressDisplay, ShortCommandsAndZeroSecondsSayNothingToALog) {
  ProgressDisplay never(ProgressDisplay::To::kLog, seconds(0), kStart);
  EXPECT_EQ(never.Text("x", "a", 1, 2, kStart + seconds(1000)), "");
  ProgressDisplay p(ProgressDisplay::To::kLog, seconds(30), kStart);
  EXPECT_EQ(p.Text("x", "a", 1, 2, kStart + seconds(20)), "");
  EXPECT_EQ(p.Text("x", "a", 0, 0, kStart + seconds(99)), "");
}

TEST(ProgressDisplay, ATerminalGetsABar) {
  ProgressDisplay p(ProgressDisplay::To::kTerminal, seconds(30), kStart);
  EXPECT_EQ(p.Text("x", "verify", 0, 2, kStart + seconds(1)),
            "\rverify       [..............................] 0/2              ");
  EXPECT_EQ(p.Text("x", "verify", 1, 2, kStart + seconds(3)),
            "\rverify       [###############...............] 1/2, 0:02 left   ");
  EXPECT_EQ(p.Text("x", "verify", 1, 2, kStart + seconds(3)), "");
  EXPECT_EQ(p.Text("x", "verify", 2, 2, kStart + seconds(3)),
            "\rverify       [##############################] 2/2              \n");
}

}  // namespace
}  // namespace infer
