#include "tools/infer_bench/run/cell_rows.h"

#include <algorithm>
#include <functional>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/json_names.h"

namespace infer::bench {
namespace {

/// Where in a result a figure stands: "/latency_ms/p99".
struct Figure {
  const char* name;
  const char* at;
  int digits;        ///< of the brief form
  double scale = 1;  ///< of the brief form
};

constexpr Figure kBrief[] = {
    {"median ms", "/latency_ms/median", 3},
    {"+-MAD", "/latency_ms/mad", 3},
    {"p90", "/latency_ms/p90", 3},
    {"p99", "/latency_ms/p99", 3},
    {"runs", "/latency_ms/runs", 0},
    {"cold", "/cold/median", 1},
    {"load", "/load_ms", 1},
    {"compile", "/compile_ms", 1},
    {"first", "/first_ms", 2},
    {"samples/s", "/throughput_per_s", 1},
    {"arena MB", "/memory/arena_bytes", 1, 1e-6},
    {"peak MB", "/memory/peak_resident_bytes", 1, 1e-6},
};

constexpr Figure kAll[] = {
    {"runs", "/latency_ms/runs", 0},
    {"median_ms", "/latency_ms/median", 0},
    {"median_low_ms", "/latency_ms/median_ci95/0", 0},
    {"median_high_ms", "/latency_ms/median_ci95/1", 0},
    {"mean_ms", "/latency_ms/mean", 0},
    {"mad_ms", "/latency_ms/mad", 0},
    {"stddev_ms", "/latency_ms/stddev", 0},
    {"cv", "/latency_ms/cv", 0},
    {"min_ms", "/latency_ms/min", 0},
    {"p50_ms", "/latency_ms/p50", 0},
    {"p90_ms", "/latency_ms/p90", 0},
    {"p95_ms", "/latency_ms/p95", 0},
    {"p99_ms", "/latency_ms/p99", 0},
    {"p99.9_ms", "/latency_ms/p99.9", 0},
    {"max_ms", "/latency_ms/max", 0},
    {"outliers", "/latency_ms/outliers", 0},
    {"cold_ms", "/cold/median", 0},
    {"load_ms", "/load_ms", 0},
    {"convert_ms", "/convert_ms", 0},
    {"compile_ms", "/compile_ms", 0},
    {"first_ms", "/first_ms", 0},
    {"warmup_runs", "/warmup/runs", 0},
    {"warmup_ended", "/warmup/ended", 0},
    {"samples_per_s", "/throughput_per_s", 0},
    {"arena_bytes", "/memory/arena_bytes", 0},
    {"lower_bound_bytes", "/memory/lower_bound_bytes", 0},
    {"weight_bytes", "/memory/weight_bytes", 0},
    {"allocated_peak_bytes", "/memory/allocated_peak_bytes", 0},
    {"cold_peak_resident_bytes", "/memory/cold_peak_resident_bytes", 0},
    {"peak_resident_bytes", "/memory/peak_resident_bytes", 0},
    {"denormals", "/numbers/outputs/denormals", 0},
    {"other_cores", "/watch/other_cores", 0},
    {"migrations", "/migrations", 0},
    {"sha256", "/model/sha256", 0},
};

Json At(const Json& result, const char* pointer) {
  const Json::json_pointer p(pointer);
  return result.contains(p) ? result.at(p) : Json();
}

std::string FullText(const Json& v) {
  if (v.is_null()) return "";
  if (v.is_string()) return v.get<std::string>();
  return CompactJson(v);
}

std::string BriefText(const Json& v, const Figure& f) {
  if (!v.is_number()) return "-";
  return Fixed(v.get<double>() * f.scale, f.digits);
}

Column Label(const Json& results, std::string name,
             const std::function<std::string(const Json&)>& of) {
  Column c{.name = std::move(name), .label = true, .cells = {}};
  for (const Json& r : results) c.cells.push_back(of(r));
  return c;
}

std::vector<Column> Labels(const Json& results) {
  std::vector<Column> out;
  out.push_back(
      Label(results, "model", [](const Json& r) { return FullText(At(r, "/model/path")); }));
  for (const char* name : {"precision", "batch", "threads"})
    out.push_back(Label(results, name, [&](const Json& r) { return FullText(r.at(name)); }));
  std::vector<std::string> symbols;
  for (const Json& r : results)
    for (const auto& [symbol, extent] : r.at("seq").items())
      if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end())
        symbols.push_back(symbol);
  for (const std::string& symbol : symbols)
    out.push_back(Label(results, symbol, [&](const Json& r) {
      return r.at("seq").contains(symbol) ? FullText(r.at("seq").at(symbol)) : std::string();
    }));
  return out;
}

}  // namespace

std::vector<Column> ColumnsOf(const Json& results, Detail detail) {
  std::vector<Column> columns = Labels(results);
  const auto add = [&](const Figure& f) {
    Column c{.name = f.name, .label = false, .cells = {}};
    for (const Json& r : results) {
      const Json v = At(r, f.at);
      c.cells.push_back(detail == Detail::kAll ? FullText(v) : BriefText(v, f));
    }
    columns.push_back(std::move(c));
  };
  if (detail == Detail::kAll)
    for (const Figure& f : kAll) add(f);
  else
    for (const Figure& f : kBrief) add(f);
  return columns;
}

std::vector<Column> OnlyWhatDiffers(std::vector<Column> columns) {
  std::erase_if(columns, [](const Column& c) {
    return c.label && c.name != "model" &&
           std::all_of(c.cells.begin(), c.cells.end(),
                       [&](const std::string& s) { return s == c.cells.front(); });
  });
  return columns;
}

std::string MachineLine(const Json& report) {
  const Json& host = report.at("host");
  const Json& environment = report.at("environment");
  std::string line = Cat(host.at("cpu").get<std::string>(), ", ", host.at("isa").get<std::string>(),
                         ", ", environment.at("affinity").size(), " processors, load ",
                         Fixed(environment.at("load").at(0).get<double>(), 2), ", ",
                         report.at("tool").at("name").get<std::string>(), " ",
                         report.at("tool").at("version").get<std::string>());
  const std::string revision = environment.at("git_revision");
  if (!revision.empty()) line += Cat(" (", revision, ")");
  return Cat(line, ", ", environment.at("date").get<std::string>());
}

}  // namespace infer::bench
