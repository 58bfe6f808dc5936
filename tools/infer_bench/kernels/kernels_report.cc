#include "tools/infer_bench/kernels/kernels_report.h"

#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/distribution.h"
#include "tools/common/roofline.h"
#include "tools/common/terminal.h"

namespace infer::bench {
namespace {

constexpr int kTimeColumns = 5;  // of the table

int64_t Moved(const Cost& c) { return c.bytes_read + c.bytes_written; }

std::string_view StateOf(const KernelCase& c, bool list) {
  if (list) return "listed";
  if (!c.check.ok()) return "wrong";
  return c.is_view ? "view" : "right";
}

/// The least time by the roofline over the time: the operands lie where a loop over the kernel
/// alone leaves them.
Json RooflineShare(const KernelCase& c, double us) {
  const StepInfo step{.precision = c.precision, .constant_bytes = c.constant_bytes};
  const double floor_ms = MeasuredRoofline(c.lanes).FloorMs(step, c.cost, Moved(c.cost));
  return floor_ms > 0 && us > 0 ? Json(floor_ms * 1e3 / us) : Json();
}

Json TimeJson(const KernelCase& c, bool with_roofline) {
  if (!c.time) return {};
  const Distribution real = Describe(c.time->real_us);
  const double us = real.median;
  return {{"median_us", us},
          {"min_us", real.min},
          {"max_us", real.max},
          {"cv", real.cv},
          {"iterations", c.time->iterations},
          {"repetitions_us", c.time->real_us},
          {"cpu_us", c.time->cpu_us},
          {"gflop_per_s", us > 0 ? static_cast<double>(c.cost.flops) / us / 1e3 : 0},
          {"gb_per_s", us > 0 ? static_cast<double>(Moved(c.cost)) / us / 1e3 : 0},
          {"roofline", with_roofline ? RooflineShare(c, us) : Json()}};
}

Json CaseJson(const KernelCase& c, bool list, bool with_roofline) {
  Json check = {{"state", StateOf(c, list)}};
  if (!list) {
    check["error"] = JsonNumber(c.check.error);
    check["tolerance"] = c.check.tolerance;
    check["unequal"] = c.check.unequal;
    check["wrong"] = c.check.wrong;
    check["wrong_in"] = c.wrong_in;
  }
  return {{"name", c.name},
          {"kernel", c.kernel},
          {"op", c.op},
          {"operators", c.operators},
          {"implementation", c.implementation},
          {"precision", c.precision},
          {"chosen", c.chosen},
          {"lanes", c.lanes},
          {"operands", c.operands},
          {"results", c.results},
          {"used", c.all_uses()},
          {"uses", c.uses},
          {"cost", ToJson(c.cost)},
          {"check", std::move(check)},
          {"time", TimeJson(c, with_roofline)}};
}

Json CoverageJson(const KernelBench& bench) {
  Json missing = Json::array();
  const std::vector<KernelEntry> entries = bench.Entries();
  for (const KernelEntry& e : entries)
    if (!bench.covered().contains(e)) missing.push_back({{"op", e.op}, {"kernel", e.kernel}});
  return {{"kernels", entries.size()},
          {"covered", entries.size() - missing.size()},
          {"not_covered", std::move(missing)}};
}

std::string Percent(const Json& share) {
  return share.is_null() ? "-" : Fixed(100 * share.get<double>(), 0);
}

std::vector<std::string> Row(const Json& c) {
  const Json& time = c.at("time");
  const bool timed = !time.is_null();
  const auto number = [&](const char* key, int digits) {
    return timed ? Fixed(time.at(key), digits) : std::string("-");
  };
  const std::string name = c.at("name");
  return {number("median_us", 2),
          timed ? Cat("+-", Fixed(100 * time.at("cv").get<double>(), 1), "%") : "-",
          number("gflop_per_s", 1),
          number("gb_per_s", 1),
          timed ? Percent(time.at("roofline")) : "-",
          Cat(c.at("used").get<int64_t>()),
          Cat(c.at("lanes").get<int64_t>()),
          ShownOperators(c.at("operators").get<std::string>()),
          c.at("implementation"),
          name.substr(name.rfind('/') + 1)};
}

/// Microseconds that the case takes of one run of every model.
double Weight(const Json& c) {
  const Json& time = c.at("time");
  return time.is_null() ? 0 : time.at("median_us").get<double>() * c.at("used").get<double>();
}

std::string WrongOnes(const Json& cases) {
  std::string out;
  for (const Json& c : cases)
    if (c.at("check").at("state") == "wrong")
      out += Cat(Styled("wrong:", Style::kRed), " ", Printable(c.at("name").get<std::string>()),
                 ", ", c.at("check").at("wrong").get<std::string>(), " (",
                 Printable(c.at("check").at("wrong_in").get<std::string>()), ")\n");
  return out;
}

/// "chain: Relu, Sigmoid\n", by kernel.
std::string NotCovered(const Json& coverage) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const Json& e : coverage.at("not_covered")) {
    const std::string kernel = e.at("kernel");
    auto it = std::find_if(groups.begin(), groups.end(),
                           [&](const auto& g) { return g.first == kernel; });
    if (it == groups.end()) it = groups.insert(groups.end(), {kernel, {}});
    it->second.push_back(e.at("op"));
  }
  std::string out;
  for (const auto& [kernel, ops] : groups) out += Cat("  ", kernel, ": ", Join(ops, ", "), "\n");
  return out;
}

}  // namespace

void AddKernels(Json& report, const KernelBench& bench) {
  const bool list = report.at("settings").at("list");
  const bool with_roofline = !report.at("interrupted").get<bool>();
  report["models"] = Json::array();
  for (const KernelSource& s : bench.sources())
    report["models"].push_back({{"name", s.name},
                                {"steps", s.steps},
                                {"with_kernel", s.with_kernel},
                                {"reference", s.reference}});
  report["cases"] = Json::array();
  std::set<int> lanes;
  for (const KernelCase& c : bench.cases()) {
    report["cases"].push_back(CaseJson(c, list, with_roofline));
    if (c.time && with_roofline) lanes.insert(c.lanes);
  }
  report["roofline"] = Json::array();
  for (const int n : lanes) report["roofline"].push_back(infer::ToJson(MeasuredRoofline(n)));
  report["coverage"] = CoverageJson(bench);
}

int64_t WrongCases(const KernelBench& bench) {
  return std::count_if(bench.cases().begin(), bench.cases().end(),
                       [](const KernelCase& c) { return !c.check.ok(); });
}

std::string KernelsTable(const Json& report) {
  const Json& cases = report.at("cases");
  std::vector<const Json*> order;
  for (const Json& c : cases) order.push_back(&c);
  std::stable_sort(order.begin(), order.end(),
                   [](const Json* a, const Json* b) { return Weight(*a) > Weight(*b); });
  std::vector<std::vector<std::string>> rows = {{"us", "spread", "GFLOP/s", "GB/s", "roofline %",
                                                 "uses", "lanes", "operator", "kernel", "shapes"}};
  for (const Json* c : order) rows.push_back(Row(*c));
  if (report.at("settings").at("list"))
    for (auto& row : rows) row.erase(row.begin(), row.begin() + kTimeColumns);
  const Json& coverage = report.at("coverage");
  std::string out = WrongOnes(cases) + TextTable(std::move(rows));
  out += Cat("\n", cases.size(), " cases of ", report.at("models").size(), " models; ",
             coverage.at("covered").get<int64_t>(), " of ", coverage.at("kernels").get<int64_t>(),
             " kernels of the registry are covered");
  const std::string missing = NotCovered(coverage);
  return out + (missing.empty() ? "\n" : Cat(", not:\n", missing));
}

}  // namespace infer::bench
