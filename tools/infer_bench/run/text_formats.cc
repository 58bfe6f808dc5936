/// CSV, Markdown and lines of JSON.
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/report.h"
#include "tools/infer_bench/run/cell_rows.h"
#include "tools/infer_bench/run/formats.h"

namespace infer::bench {
namespace {

std::string CsvCell(const std::string& given) {
  const std::string text = Printable(given);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string MarkdownCell(const std::string& text) {
  std::string out;
  for (char c : Printable(text)) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string RunCsv(const Json& report) {
  const std::vector<Column> columns = ColumnsOf(report.at("results"), Detail::kAll);
  std::string out;
  for (size_t row = 0; row <= report.at("results").size(); ++row) {
    std::vector<std::string> cells;
    for (const Column& c : columns) cells.push_back(CsvCell(row == 0 ? c.name : c.cells[row - 1]));
    out += Join(cells, ",") + "\r\n";
  }
  return out;
}

std::string RunMarkdown(const Json& report) {
  const std::vector<Column> columns =
      OnlyWhatDiffers(ColumnsOf(report.at("results"), Detail::kBrief));
  std::string header = "|", rule = "|";
  for (const Column& c : columns) {
    header += Cat(" ", MarkdownCell(c.name), " |");
    rule += c.label ? " --- |" : " ---: |";
  }
  std::string out = header + "\n" + rule + "\n";
  for (size_t row = 0; row < report.at("results").size(); ++row) {
    out += "|";
    for (const Column& c : columns) out += Cat(" ", MarkdownCell(c.cells[row]), " |");
    out += "\n";
  }
  out += Cat("\n", MarkdownCell(MachineLine(report)), "\n");
  for (const Json& w : report.at("warnings"))
    out += Cat("\n- ", MarkdownCell(w.get<std::string>()), "\n");
  if (report.at("interrupted").get<bool>()) out += "\nInterrupted: this is what there was.\n";
  if (const Json error = report.value("error", Json()); error.is_string())
    out += Cat("\nNot complete: ", MarkdownCell(error.get<std::string>()), "\n");
  return out;
}

std::string JsonLine(std::string_view type, const Json& record) {
  Json line = {{"type", type}};
  line.update(record);
  return JsonText(line, -1);
}

}  // namespace infer::bench
