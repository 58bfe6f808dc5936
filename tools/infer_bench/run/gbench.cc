/// Google Benchmark's JSON (docs/user_guide.md of google/benchmark, "Output Formats").
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/bench/distribution.h"
#include "tools/common/report.h"
#include "tools/infer_bench/run/formats.h"

namespace infer::bench {
namespace {

constexpr size_t kMostRepetitions = 50;

Json ContextOf(const Json& report) {
  const Json& environment = report.at("environment");
  Json caches = Json::array();
  for (const Json& c : environment.at("caches"))
    caches.push_back({{"type", c.at("type")},
                      {"level", c.at("level")},
                      {"size", c.at("bytes")},
                      {"num_sharing", c.at("shared_by")}});
  const Json& governors = environment.at("governors");
  const bool scaling = std::any_of(governors.begin(), governors.end(),
                                   [](const Json& g) { return g != "performance"; });
  return {{"date", environment.at("date")},
          {"host_name", environment.at("host_name")},
          {"executable", report.at("command").at(0)},
          {"num_cpus", report.at("host").at("logical_cpus")},
          {"mhz_per_cpu", std::llround(environment.at("mhz").get<double>())},
          {"cpu_scaling_enabled", scaling},
          {"caches", std::move(caches)},
          {"load_avg", environment.at("load")},
          {"library_version", report.at("tool").at("version")},
          {"library_build_type", report.at("host").at("build_type")},
          {"json_schema_version", 1},
          {"git_revision", environment.at("git_revision")},
          {"interrupted", report.at("interrupted")},
          {"error", report.value("error", Json())}};
}

struct Repetition {
  size_t iterations;
  double real_ms, cpu_ms;  ///< of one iteration, mean
};

std::vector<Repetition> RepetitionsOf(const Json& result) {
  const auto ms = result.at("samples_ms").get<std::vector<double>>();
  const auto cpu = result.at("samples_cpu_ms").get<std::vector<double>>();
  std::vector<Repetition> out;
  const size_t count = std::min(kMostRepetitions, ms.size());
  for (size_t r = 0; r < count; ++r) {
    const size_t begin = r * ms.size() / count, end = (r + 1) * ms.size() / count;
    const auto mean = [&](const std::vector<double>& v) {
      return std::accumulate(v.begin() + static_cast<std::ptrdiff_t>(begin),
                             v.begin() + static_cast<std::ptrdiff_t>(end), 0.0) /
             static_cast<double>(end - begin);
    };
    out.push_back({end - begin, mean(ms), mean(cpu)});
  }
  return out;
}

void AddBenchmark(const Json& result, size_t family, Json& benchmarks) {
  const std::string name = result.at("name");
  const std::vector<Repetition> repetitions = RepetitionsOf(result);
  const Json common = {{"family_index", family},
                       {"per_family_instance_index", 0},
                       {"run_name", name},
                       {"repetitions", repetitions.size()},
                       {"threads", 1}};
  const auto add = [&](const std::string& full_name, const char* type, Json fields) {
    Json b = {{"name", full_name}, {"run_type", type}};
    b.update(common);
    b.update(fields);
    b["time_unit"] = "ms";
    benchmarks.push_back(std::move(b));
  };
  std::vector<double> real, cpu;
  for (size_t r = 0; r < repetitions.size(); ++r) {
    real.push_back(repetitions[r].real_ms);
    cpu.push_back(repetitions[r].cpu_ms);
    add(name, "iteration",
        {{"repetition_index", r},
         {"iterations", repetitions[r].iterations},
         {"real_time", real.back()},
         {"cpu_time", cpu.back()},
         {"items_per_second",
          real.back() > 0 ? 1e3 * result.at("batch").get<double>() / real.back() : 0.0}});
  }
  if (repetitions.size() < 2) return;
  const Distribution of_real = Describe(real), of_cpu = Describe(cpu);
  const auto aggregate = [&](const char* what, double a, double b, const char* unit) {
    add(name + "_" + what, "aggregate",
        {{"aggregate_name", what},
         {"aggregate_unit", unit},
         {"iterations", repetitions.size()},
         {"real_time", a},
         {"cpu_time", b}});
  };
  aggregate("mean", of_real.mean, of_cpu.mean, "time");
  aggregate("median", of_real.median, of_cpu.median, "time");
  aggregate("stddev", of_real.stddev, of_cpu.stddev, "time");
  aggregate("cv", of_real.cv, of_cpu.cv, "percentage");
}

}  // namespace

std::string RunGbench(const Json& report) {
  Json benchmarks = Json::array();
  size_t family = 0;
  for (const Json& result : report.at("results")) AddBenchmark(result, family++, benchmarks);
  const Json out = {{"context", ContextOf(report)}, {"benchmarks", std::move(benchmarks)}};
  return JsonText(out, 2);
}

}  // namespace infer::bench
