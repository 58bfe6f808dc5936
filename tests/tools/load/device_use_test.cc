/// Figures of the spans of a device's queues.
#include "tools/infer_bench/load/device_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace infer::bench {
namespace {

using ::testing::HasSubstr;

constexpr int kCompute = 0, kUpload = 1, kDownload = 2;

DeviceActivity Activity(std::vector<DeviceSpan> spans) {
  return {.queues = {"compute", "upload", "download"}, .spans = std::move(spans), .window_ms = 100};
}

DeviceUse Use(const DeviceActivity& a) { return UseOf(a, InOrder(a)); }

TEST(DeviceUse, BusyTimesAreUnions) {
  // Two lanes on the queue of shaders, whose second submission was seen before the first ended.
  const DeviceUse use =
      Use(Activity({{7, kCompute, 10, 30}, {9, kCompute, 20, 50}, {7, kCompute, 70, 80}}));
  EXPECT_EQ(use.lanes, 2);
  EXPECT_DOUBLE_EQ(use.busy_ms, 50);
  EXPECT_DOUBLE_EQ(use.queues[kCompute].busy_ms, 50);
  EXPECT_EQ(use.queues[kCompute].submissions, 3);
  EXPECT_DOUBLE_EQ(use.share(use.busy_ms), 0.5);
  EXPECT_DOUBLE_EQ(use.transfer_ms, 0);
  EXPECT_TRUE(ToJson(use)["overlapped_share"].is_null());
}

TEST(DeviceUse, TransfersBesideShadersOfOtherLanes) {
  const DeviceUse use = Use(Activity({{0, kUpload, 0, 10},
                                      {0, kCompute, 10, 40},
                                      {1, kUpload, 20, 30},  // whole beside shaders
                                      {1, kCompute, 40, 60},
                                      {0, kDownload, 50, 70}}));  // half of it
  EXPECT_DOUBLE_EQ(use.transfer_ms, 40);
  EXPECT_DOUBLE_EQ(use.overlapped_ms, 20);
  EXPECT_DOUBLE_EQ(use.busy_ms, 70);
  EXPECT_DOUBLE_EQ(ToJson(use)["overlapped_share"].get<double>(), 0.5);
  EXPECT_THAT(DeviceLine(use), HasSubstr("50.0 % of transfers beside shaders"));
}

/// A device may look at what waits long before it begins: one lane overlaps with nothing of its
/// own.
TEST(DeviceUse, OneLaneIsInOrder) {
  const DeviceUse use =
      Use(Activity({{3, kUpload, 0, 10}, {3, kCompute, 1, 40}, {3, kDownload, 2, 50}}));
  EXPECT_DOUBLE_EQ(use.transfer_ms, 20);
  EXPECT_DOUBLE_EQ(use.overlapped_ms, 0);
  EXPECT_DOUBLE_EQ(use.busy_ms, 50);
}

TEST(DeviceUse, TheWindowBounds) {
  const DeviceUse use = Use(Activity({{0, kCompute, -5, 5},
                                      {0, kCompute, 90, 110},
                                      {0, kUpload, 120, 130},
                                      {1, kUpload, -9, -3}}));
  EXPECT_DOUBLE_EQ(use.busy_ms, 15);
  EXPECT_EQ(use.queues[kUpload].submissions, 0);
}

TEST(DeviceUse, ATraceHasATrackForEachQueue) {
  const DeviceActivity a = Activity({{4, kUpload, 1, 2}, {5, kCompute, 0.5, 3}});
  const Json trace = Json::parse(ChromeTrace("m.onnx", a.queues, InOrder(a)));
  std::vector<std::string> tracks;
  Json spans = Json::array();
  for (const Json& e : trace["traceEvents"]) {
    if (e["name"] == "thread_name") tracks.push_back(e["args"]["name"]);
    if (e["ph"] == "X") spans.push_back(e);
  }
  EXPECT_THAT(tracks, ::testing::ElementsAre("compute queue", "upload queue", "download queue"));
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0]["tid"], 2);
  EXPECT_EQ(spans[0]["args"]["lane"], 0);
  EXPECT_DOUBLE_EQ(spans[0]["ts"].get<double>(), 1000);
  EXPECT_EQ(spans[1]["cat"], "compute");
  EXPECT_DOUBLE_EQ(spans[1]["dur"].get<double>(), 2500);
}

}  // namespace
}  // namespace infer::bench
