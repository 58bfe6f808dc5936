#include "tools/infer_bench/load/request_trace.h"

#include <gtest/gtest.h>

#include <map>

#include "tools/common/parse_json.h"

namespace infer::bench {
namespace {

TEST(RequestTrace, PhasesLieWithinTheirRequest) {
  const engine::RequestSpan run{
      .number = 7,
      .model = "m",
      .version = 2,
      .priority = engine::Priority::kHigh,
      .end = engine::State::kSucceeded,
      .came_ns = 5'000,
      .phases = {.queue_ns = 1'000, .batch_ns = 500, .compute_ns = 2'000, .total_ns = 4'000},
      .batch_rows = 3};
  const engine::RequestSpan rejected{.number = 8,
                                     .model = "m",
                                     .end = engine::State::kRejected,
                                     .came_ns = 6'000,
                                     .phases = {.total_ns = 10}};
  const Json trace = *ParseJson(RequestTrace("process", {run, rejected}, 1'000));
  std::map<std::pair<int64_t, std::string>, std::vector<double>> at_us;  // begin and end
  for (const Json& e : trace["traceEvents"]) {
    if (e["ph"] == "M") continue;
    auto& times = at_us[{e["id"].get<int64_t>(), e["name"].get<std::string>()}];
    EXPECT_EQ(e["ph"], times.empty() ? "b" : "e");
    times.push_back(e["ts"]);
    if (e.contains("args") && e["id"] == 7) {
      EXPECT_EQ(e["args"],
                (Json{{"end", "succeeded"}, {"priority", "high"}, {"version", 2}, {"rows", 3}}));
    }
  }
  const decltype(at_us) expected = {{{7, "m"}, {4, 8}},
                                    {{7, "queue"}, {4, 5}},
                                    {{7, "batch"}, {5, 5.5}},
                                    {{7, "compute"}, {5.5, 7.5}},
                                    {{8, "m"}, {5, 5.01}}};
  EXPECT_EQ(at_us, expected);
}

}  // namespace
}  // namespace infer::bench
