// Which file is recommended after `quantize`, of timings that are given.
#include "tools/common/worth_rule.h"

#include <gmock/gmock.h>

namespace infer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Summary Ratio(double low, double median, double high) {
  return {.count = 9, .median = median, .median_low = low, .median_high = high};
}

/// 1000 bytes of FP32.
Worth Of(Summary ratio, int64_t bytes, std::optional<ToldTime> told = {}) {
  return {.timing = {.ratio = ratio}, .fused_bytes = 1000, .bytes = bytes, .told = std::move(told)};
}

TEST(WorthRule, SlowerIsSaidAndTheFusedFileNamed) {
  const Worth w = Of(Ratio(1.05, 1.1, 1.2), 300);
  EXPECT_FALSE(w.worth());
  const Json report = ToJson(w);
  EXPECT_EQ(report.at("slower"), true);
  EXPECT_EQ(report.at("larger"), false);
  EXPECT_EQ(report.at("recommended"), "fused-fp32");
  EXPECT_EQ(WarningOf(w, "m.onnx"),
            "the result is slower than the fused FP32 model (1.1 (95 % interval 1.05 to 1.2) of "
            "the time of the fused FP32 model): recommended is the fused FP32 file, infer-opt fuse "
            "m.onnx -o FILE");
}

TEST(WorthRule, SlowerAndLargerAreBothSaid) {
  const Worth w = Of(Ratio(1.05, 1.1, 1.2), 1500);
  EXPECT_EQ(ToJson(w).at("recommended"), "fused-fp32");
  EXPECT_THAT(WarningOf(w, "m.onnx"),
              AllOf(HasSubstr("slower and larger than"), HasSubstr("1.1 "),
                    HasSubstr("1.5 of its bytes"), HasSubstr("infer-opt fuse m.onnx")));
}

TEST(WorthRule, LargerAloneSaysNothingOfTime) {
  const Worth w = Of(Ratio(0.4, 0.5, 0.6), 1001);
  EXPECT_EQ(ToJson(w).at("slower"), false);
  EXPECT_EQ(ToJson(w).at("recommended"), "fused-fp32");
  EXPECT_THAT(WarningOf(w, "m.onnx"),
              AllOf(HasSubstr("result is larger than"), Not(HasSubstr("time"))));
}

TEST(WorthRule, TheWholeIntervalMustLieAboveWhatIsToldApart) {
  for (const Summary& ratio : {Ratio(0.9, 1.5, 2), Ratio(1.01, 1.5, 2), Ratio(1.02, 1.02, 1.02)}) {
    const Worth w = Of(ratio, 1000);
    EXPECT_TRUE(w.worth()) << ratio.median_low;
    EXPECT_EQ(ToJson(w).at("recommended"), "quantized");
    EXPECT_EQ(WarningOf(w, "m.onnx"), "");
  }
  EXPECT_FALSE(Of(Ratio(1.03, 1.03, 1.03), 1000).worth());
}

TEST(WorthRule, ATimeOfAnotherRuntimeDecides) {
  const Worth slow = Of(Ratio(0.4, 0.5, 0.6), 300, ToldTime{1.3, "a table"});
  EXPECT_EQ(ToJson(slow).at("slower"), true);
  EXPECT_EQ(ToJson(slow).at("told"), 1.3);
  EXPECT_THAT(WarningOf(slow, "m.onnx"),
              AllOf(HasSubstr("slower than the fused"), HasSubstr("1.3 of the time"),
                    HasSubstr("(a table)")));
  EXPECT_THAT(ToText(slow), testing::StartsWith("told: 1.3 "));
  EXPECT_TRUE(Of(Ratio(1.4, 1.5, 1.6), 300, ToldTime{0.9, "a table"}).worth());
}

TEST(WorthRule, ASuspicionIsMeasuredAgain) {
  std::vector<Summary> left = {Ratio(0.9, 1, 1.1), Ratio(1.3, 1.4, 1.5)};
  const auto measure = [&left]() -> Result<PairTiming> {
    PairTiming t{.ratio = left.back()};
    left.pop_back();
    return t;
  };
  auto t = TimeSuspects(measure);
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->ratio.median, 1);  // the second one
  left = {Ratio(1.3, 1.4, 1.5), Ratio(0.9, 1, 1.1)};
  t = TimeSuspects(measure);
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->ratio.median, 1);  // and there is none
  EXPECT_EQ(left.size(), 1u);
}

}  // namespace
}  // namespace infer
