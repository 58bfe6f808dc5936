#include "tools/infer_bench/run/formats.h"

#include <numeric>

#include "tools/bench/bench_json.h"

namespace infer::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Json ResultOf(const std::string& path, int threads, std::vector<double> ms) {
  Json r = {{"name", path + "/threads:" + std::to_string(threads)},
            {"model", {{"path", path}}},
            {"precision", "as-is"},
            {"batch", 2},
            {"threads", threads},
            {"seq", Json::object()},
            {"load_ms", 1.5},
            {"cold", nullptr},
            {"latency_ms", ToJson(Describe(ms))},
            {"samples_ms", ms},
            {"samples_cpu_ms", ms},
            {"warnings", Json::array()}};
  return r;
}

Json ReportOf(std::vector<Json> results) {
  return {{"tool", {{"name", "infer-bench run"}, {"version", "1.2"}}},
          {"command", {"infer-bench"}},
          {"host", HostJson()},
          {"environment", ToJson(CaptureEnvironment())},
          {"interrupted", false},
          {"warnings", {"hot | loud"}},
          {"results", std::move(results)}};
}

std::vector<double> Rising(size_t n) {
  std::vector<double> v(n);
  std::iota(v.begin(), v.end(), 1.0);
  return v;
}

TEST(RunTable, OnlyLabelsThatDiffer) {
  const std::string one = RunTable(ReportOf({ResultOf("a.onnx", 1, Rising(100))}), false);
  EXPECT_THAT(one, AllOf(HasSubstr("a.onnx"), Not(HasSubstr("threads")), HasSubstr("▁"),
                         HasSubstr("50.500"), Not(HasSubstr("\x1b"))));
  const Json two = ReportOf({ResultOf("a.onnx", 1, {1, 1}), ResultOf("a.onnx", 2, {2, 2})});
  EXPECT_THAT(RunTable(two, false), HasSubstr("threads"));
  EXPECT_THAT(RunTable(two, true), HasSubstr("\x1b[1m"));
  EXPECT_EQ(RunTable(ReportOf({}), false), "no results\n");
}

TEST(RunCsv, QuotesWhatItMust) {
  const std::string csv = RunCsv(ReportOf({ResultOf("a,\"b\".onnx", 1, Rising(70))}));
  EXPECT_THAT(csv, StartsWith("model,precision,batch,threads,runs,median_ms,"));
  EXPECT_THAT(csv, HasSubstr("\r\n\"a,\"\"b\"\".onnx\",as-is,2,1,70,35.5,"));
}

TEST(RunMarkdown, EscapesBars) {
  const std::string text = RunMarkdown(ReportOf({ResultOf("a|b.onnx", 1, Rising(3))}));
  EXPECT_THAT(text, AllOf(HasSubstr("| a\\|b.onnx |"), HasSubstr("- hot \\| loud")));
}

TEST(RunGbench, RepetitionsHoldEverySampleOnce) {
  const Json out = Json::parse(RunGbench(ReportOf({ResultOf("a.onnx", 1, Rising(123))})));
  double iterations = 0, total = 0;
  int repetitions = 0, aggregates = 0;
  for (const Json& b : out.at("benchmarks")) {
    if (b.at("run_type") == "aggregate") {
      ++aggregates;
      continue;
    }
    EXPECT_EQ(b.at("repetition_index"), repetitions++);
    EXPECT_EQ(b.at("repetitions"), 50);
    iterations += b.at("iterations").get<double>();
    total += b.at("iterations").get<double>() * b.at("real_time").get<double>();
  }
  EXPECT_EQ(repetitions, 50);
  EXPECT_EQ(aggregates, 4);
  EXPECT_EQ(iterations, 123);
  EXPECT_NEAR(total, 123 * 124 / 2, 1e-6);
  EXPECT_EQ(out.at("context").at("json_schema_version"), 1);
}

TEST(JsonLine, OneLine) {
  EXPECT_EQ(JsonLine("end", {{"x", "a\nb"}}), "{\"type\":\"end\",\"x\":\"a\\nb\"}\n");
}

}  // namespace
}  // namespace infer::bench
