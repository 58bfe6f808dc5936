#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/sparkline.h"
#include "tools/common/terminal.h"
#include "tools/infer_bench/run/cell_rows.h"
#include "tools/infer_bench/run/formats.h"

namespace infer::bench {
namespace {

constexpr double kWideInterval = 0.05;

/// Columns side by side, a header first.
std::vector<std::vector<std::string>> Rows(const std::vector<Column>& columns) {
  std::vector<std::vector<std::string>> rows(columns.empty() ? 1 : columns[0].cells.size() + 1);
  for (const Column& c : columns) {
    rows[0].push_back(c.name);
    for (size_t i = 0; i < c.cells.size(); ++i) rows[i + 1].push_back(c.cells[i]);
  }
  return rows;
}

/// The half width of the median's 95 % interval, of the median.
double IntervalShare(const Json& result) {
  const Json& ms = result.at("latency_ms");
  const double median = ms.at("median");
  const Json& ci = ms.at("median_ci95");
  return median > 0 ? (ci.at(1).get<double>() - ci.at(0).get<double>()) / 2 / median : 0;
}

}  // namespace

std::string RunTable(const Json& report, bool colour) {
  const Json& results = report.at("results");
  if (results.empty()) return "no results\n";
  std::vector<Column> columns = OnlyWhatDiffers(ColumnsOf(results, Detail::kBrief));
  Column interval{.name = "95 %", .label = false, .cells = {}}, line{.name = "samples"};
  for (const Json& r : results) {
    interval.cells.push_back(Cat("+-", Fixed(100 * IntervalShare(r), 1), "%"));
    line.cells.push_back(Sparkline(r.at("samples_ms").get<std::vector<double>>()));
  }
  const auto median = std::find_if(columns.begin(), columns.end(),
                                   [](const Column& c) { return c.name == "median ms"; });
  columns.insert(median + 1, std::move(interval));
  columns.push_back(std::move(line));
  const std::string text = TextTable(Rows(columns));
  if (!colour) return text;
  // The layout is done: escapes have no width. Lines are the header's and one for each result.
  std::string out;
  const std::vector<std::string> lines = Split(text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    if (i == 0) {
      out += Styled(lines[i], Style::kBold, true) + "\n";
      continue;
    }
    const size_t bars = std::min(lines[i].find("\xe2\x96"), lines[i].size());  // of a sparkline
    std::string left = lines[i].substr(0, bars);
    const Json& result = results.at(i - 1);
    if (!result.at("warnings").empty() || IntervalShare(result) > kWideInterval)
      left = Styled(left, Style::kYellow, true);
    out += left + Styled(lines[i].substr(bars), Style::kCyan, true) + "\n";
  }
  return out;
}

}  // namespace infer::bench
