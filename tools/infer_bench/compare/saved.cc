#include "tools/infer_bench/compare/saved.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "lib/support/file.h"
#include "lib/support/hash.h"
#include "lib/support/rank_tests.h"
#include "lib/support/readable.h"
#include "lib/support/statistics.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tools/common/json_names.h"
#include "tools/common/model_options.h"
#include "tools/common/parse_json.h"

namespace infer {
namespace {

/// Mann-Whitney reaches 1 % with five starts of each side, not with four.
constexpr size_t kLeastStarts = 5;
constexpr double kSignificance = 0.01;
/// A floor is three standard deviations; intervals of 95 and 99 % take so much of it.
constexpr double kFloor95 = 1.96 / 3, kFloor99 = 2.576 / 3;

std::vector<double> Times(const Json& j, double scale = 1) {
  std::vector<double> ms;
  if (!j.is_array()) return ms;
  for (const Json& v : j)
    if (v.is_number() && v.get<double>() > 0) ms.push_back(v.get<double>() * scale);
  return ms;
}

std::string Text(const Json& j, const char* pointer) {
  const Json::json_pointer at(pointer);
  if (!j.contains(at)) return "";
  const Json& v = j.at(at);
  return v.is_string() ? v.get<std::string>() : CompactJson(v);
}

Json MachineOf(const Json& report) {
  Json machine = Json::object();
  for (const char* key : {"cpu", "isa", "logical_cpus", "build_type"})
    machine[key] = Text(report, (std::string("/host/") + key).c_str());
  return machine;
}

std::string LabelOf(const Json& j) {
  std::string label = std::filesystem::path(Text(j, "/model/path")).filename().string();
  for (const char* key : {"precision", "batch", "threads", "extents", "seq"}) {
    const std::string value = Text(j, (std::string("/") + key).c_str());
    if (!value.empty() && value != "{}") label += Cat(" ", key, "=", value);
  }
  return label;
}

/// A setting, where it stands in a report, and what a tool takes by itself.
struct Setting {
  const char* name;
  const char* pointer;
  Json usual;
};

/// Without what is usual: so do the histories read that were written before there were settings.
Json SettingsOf(const Json& j, const std::vector<Setting>& known) {
  Json settings = Json::object();
  for (const Setting& s : known) {
    const Json::json_pointer at(s.pointer);
    if (j.contains(at) && j.at(at) != s.usual) settings[s.name] = j.at(at);
  }
  return settings;
}

void ReadRun(const Json& report, SavedReport& out) {
  const DeviceOptions usual;
  const Json settings = SettingsOf(report, {{"device", "/device", usual.device},
                                            {"level", "/settings/level", usual.level},
                                            {"compute", "/settings/compute", usual.compute},
                                            {"memory", "/settings/memory", usual.memory}});
  for (const Json& r : report.value("results", Json::array())) {
    const std::string label = LabelOf(r), model = Text(r, "/model/sha256");
    const std::vector<double> steady = Times(r.value("samples_ms", Json()));
    if (!steady.empty())
      out.series.push_back({label, model, {Quantile(steady, 0.5)}, steady, settings});
    const Json starts = r.value("cold", Json());  // null: none were asked for
    const std::vector<double> cold =
        starts.is_object() ? Times(starts.value("samples_ms", Json())) : std::vector<double>();
    if (!cold.empty()) out.series.push_back({label + " cold", model, cold, {}, settings});
  }
}

void ReadCompare(const Json& report, size_t side, SavedReport& out) {
  const Json sides = report.value("sides", Json::array());
  if (sides.size() <= side) return;
  const DeviceOptions usual;
  SavedSeries s{LabelOf(sides[side]), Text(sides[side], "/model/sha256"), {}, {}};
  s.settings = SettingsOf(sides[side], {{"device", "/device", usual.device},
                                        {"level", "/level", usual.level},
                                        {"compute", "/compute", usual.compute},
                                        {"memory", "/memory", usual.memory},
                                        {"rewrites", "/rewrites", kLevelNames.back()},
                                        {"environment", "/environment", Json::array()}});
  for (const Json& start : sides[side].value("starts", Json::array())) {
    const auto ms = Times(Json::array({start.value("fastest_ms", Json())}));
    s.starts_ms.insert(s.starts_ms.end(), ms.begin(), ms.end());
    if (s.runs_ms.empty()) s.runs_ms = Times(start.value("samples_ms", Json()));
  }
  if (!s.starts_ms.empty()) out.series.push_back(std::move(s));
}

/// Repetitions of one process: one start.
void ReadGoogleBenchmark(const Json& report, SavedReport& out) {
  out.machine = {{"num_cpus", Text(report, "/context/num_cpus")},
                 {"host_name", Text(report, "/context/host_name")},
                 {"build_type", Text(report, "/context/library_build_type")}};
  for (const Json& b : report["benchmarks"]) {
    if (!b.is_object() || Text(b, "/run_type") == "aggregate") continue;
    const std::string unit = Text(b, "/time_unit");
    const double scale = unit == "s" ? 1e3 : unit == "ms" ? 1 : unit == "us" ? 1e-3 : 1e-6;
    const auto ms = Times(Json::array({b.value("real_time", Json())}), scale);
    const std::string name = b.contains("run_name") ? Text(b, "/run_name") : Text(b, "/name");
    if (ms.empty()) continue;
    auto it = std::find_if(out.series.begin(), out.series.end(),
                           [&](const SavedSeries& s) { return s.label == name; });
    if (it == out.series.end()) it = out.series.insert(it, {name, "", {}, {}});
    it->runs_ms.push_back(ms[0]);
  }
  for (SavedSeries& s : out.series) s.starts_ms = {Quantile(s.runs_ms, 0.5)};
}

/// Labels that stand for several series of one report.
std::set<std::string> SharedLabels(const std::vector<SavedReport>& reports) {
  std::set<std::string> shared;
  for (const SavedReport& r : reports) {
    std::set<std::string> seen;
    for (const SavedSeries& s : r.series)
      if (!seen.insert(s.label).second) shared.insert(s.label);
  }
  return shared;
}

/// Adds the starts of another report of the same side.
Status AddStarts(const SavedReport& more, const std::set<std::string>& shared, SavedReport& all) {
  std::vector<bool> used(all.series.size(), false);
  for (const SavedSeries& s : more.series) {
    const bool by_model = shared.count(s.label) > 0;
    const auto same = [&](const SavedSeries& o) {
      return o.label == s.label && (!by_model || o.model == s.model);
    };
    size_t k = 0;
    while (k < used.size() && (used[k] || !same(all.series[k]))) ++k;
    if (k == used.size()) {
      all.series.push_back(s);
      continue;
    }
    SavedSeries& to = all.series[k];
    if (to.settings != s.settings)
      return InvalidArgument(
          Cat(more.path, " and ", all.path, ": ", s.label, " with another device or level"));
    used[k] = true;
    to.starts_ms.insert(to.starts_ms.end(), s.starts_ms.begin(), s.starts_ms.end());
  }
  return {};
}

std::vector<double> Logs(const std::vector<double>& ms) {
  std::vector<double> logs;
  for (const double v : ms) logs.push_back(std::log(v));
  return logs;
}

Estimate Share(const Estimate& log) {
  return {std::expm1(log.value), std::expm1(log.low), std::expm1(log.high)};
}

void Conclude(const Estimate& e95, const Estimate& e99, bool significant, Conclusion& c) {
  c.effect = e95;
  c.measured = true;
  const double m = c.min_effect;
  if (significant && (e99.low > 0 || e99.high < 0) && std::abs(e95.value) >= m)
    c.verdict = e95.value > 0 ? Verdict::kSlower : Verdict::kFaster;
  else if (e95.low > -m && e95.high < m)
    c.verdict = Verdict::kSame;
}

std::string Counted(size_t n) { return Cat(n, n == 1 ? " start" : " starts"); }

SavedPair Judge(const SavedSeries& a, const SavedSeries& b, const SavedOptions& options,
                const std::string& other_machine) {
  SavedPair pair{a, b, {}, 1, {}, {}};
  Conclusion& c = pair.conclusion;
  c.title = a.label == b.label ? a.label : Cat(a.label, " against ", b.label);
  c.a_ms = Fixed(Quantile(a.starts_ms, 0.5), 3);
  c.b_ms = Fixed(Quantile(b.starts_ms, 0.5), 3);
  c.basis = Cat(Counted(a.starts_ms.size()), " against ", b.starts_ms.size());
  c.min_effect = options.min_effect;
  if (!a.runs_ms.empty() && !b.runs_ms.empty())
    pair.of_runs = Share(HodgesLehmannShift(Logs(a.runs_ms), Logs(b.runs_ms), 0.95));
  if (options.floor) pair.floor = options.floor(b);
  if (pair.floor) {
    c.min_effect = std::max(c.min_effect, pair.floor->share);
    c.basis += Cat(", noise floor ", Percent(pair.floor->share), " of ", pair.floor->comparisons);
  }
  const std::vector<double> from = Logs(a.starts_ms), to = Logs(b.starts_ms);
  if (std::min(from.size(), to.size()) >= kLeastStarts) {
    pair.p = MannWhitneyP(from, to);
    Conclude(Share(HodgesLehmannShift(from, to, 0.95)), Share(HodgesLehmannShift(from, to, 0.99)),
             pair.p < kSignificance, c);
  } else if (pair.floor) {
    const double d = Quantile(to, 0.5) - Quantile(from, 0.5), f = std::log1p(pair.floor->share);
    Conclude(Share({d, d - kFloor95 * f, d + kFloor95 * f}),
             Share({d, d - kFloor99 * f, d + kFloor99 * f}), true, c);
  } else {
    c.reason = Cat(Counted(std::min(from.size(), to.size())),
                   ", and runs of one process are not independent: give five reports of each side, "
                   "or a history of eight comparisons");
  }
  if (!other_machine.empty()) {
    c.verdict = Verdict::kInconclusive;
    c.reason = other_machine;
  }
  return pair;
}

}  // namespace

Result<SavedReport> ReadSavedReport(const std::string& path, size_t side) {
  INFER_ASSIGN(const std::string text, ReadFile(path));
  auto parsed = ParseJson(text);
  if (!parsed.ok()) return InvalidModel(Cat(path, ": ", parsed.status().message()));
  const Json report = *std::move(parsed);
  if (!report.is_object()) return InvalidModel(Cat(path, ": no JSON object"));
  SavedReport out;
  out.path = path;
  out.content = HashBytes(text.data(), text.size());
  try {
    out.machine = MachineOf(report);
    const std::string schema = Text(report, "/schema");
    out.format = schema;
    if (schema == "infer-bench/run@1" || schema == "infer-bench/run@2") {
      ReadRun(report, out);
    } else if (schema == "infer-bench/compare@1") {
      ReadCompare(report, side, out);
    } else if (report.contains("benchmarks") && report["benchmarks"].is_array()) {
      out.format = "google-benchmark";
      ReadGoogleBenchmark(report, out);
    } else {
      return InvalidModel(Cat(path, schema.empty() ? "" : Cat(": ", schema),
                              ": no report of infer-bench run or compare that this version reads, "
                              "nor of Google Benchmark"));
    }
  } catch (const nlohmann::json::exception& e) {
    return InvalidModel(Cat(path, ": not what ", out.format, " has: ", e.what()));
  }
  if (out.series.empty()) return InvalidModel(Cat(path, ": it has no times"));
  return out;
}

Result<SavedReport> Merge(std::vector<SavedReport> reports) {
  const std::set<std::string> shared = SharedLabels(reports);
  SavedReport all = std::move(reports.front());
  std::set<uint64_t> seen = {all.content};
  for (size_t i = 1; i < reports.size(); ++i) {
    const SavedReport& r = reports[i];
    if (r.content != 0 && !seen.insert(r.content).second)
      return InvalidArgument(Cat(r.path, ": the same report twice is one measurement"));
    if (r.format != all.format || r.machine != all.machine)
      return InvalidArgument(Cat(r.path, " and ", all.path, ": of another kind or machine"));
    INFER_TRY(AddStarts(r, shared, all));
  }
  return all;
}

std::vector<SavedPair> CompareSaved(const SavedReport& a, const SavedReport& b,
                                    const SavedOptions& options,
                                    std::vector<std::string>& unmatched) {
  std::string other;
  if (a.format != b.format)
    other = Cat("reports of two kinds: ", a.format, " and ", b.format);
  else if (a.machine != b.machine)
    other = "measured on different machines or builds";
  std::vector<SavedPair> pairs;
  if (a.series.size() == 1 && b.series.size() == 1) {
    pairs.push_back(Judge(a.series[0], b.series[0], options, other));
    return pairs;
  }
  std::vector<bool> used(b.series.size(), false);
  for (const SavedSeries& s : a.series) {
    size_t k = 0;
    while (k < used.size() && (used[k] || b.series[k].label != s.label)) ++k;
    if (k == used.size()) {
      unmatched.push_back(Cat("only A has ", s.label));
      continue;
    }
    used[k] = true;
    pairs.push_back(Judge(s, b.series[k], options, other));
  }
  for (size_t k = 0; k < used.size(); ++k)
    if (!used[k]) unmatched.push_back(Cat("only B has ", b.series[k].label));
  return pairs;
}

Json ToJson(const SavedPair& pair) {
  const auto estimate = [](const Estimate& e) {
    return Json{{"value", JsonNumber(e.value)}, {"ci95", {JsonNumber(e.low), JsonNumber(e.high)}}};
  };
  const Conclusion& c = pair.conclusion;
  return {{"series", c.title},
          {"a_starts_ms", pair.a.starts_ms},
          {"b_starts_ms", pair.b.starts_ms},
          {"verdict", Name(c.verdict)},
          {"reason", c.reason},
          {"effect", c.measured ? estimate(c.effect) : Json()},
          {"mann_whitney_p", pair.p},
          {"of_runs", pair.of_runs ? estimate(*pair.of_runs) : Json()},
          {"min_effect", c.min_effect},
          {"noise_floor",
           pair.floor ? Json{{"share", pair.floor->share}, {"comparisons", pair.floor->comparisons}}
                      : Json()},
          {"passed", !c.fails}};
}

}  // namespace infer
