#include "tools/infer_bench/compare/saved_run.h"

#include <algorithm>
#include <fstream>

#include "lib/support/statistics.h"
#include "lib/support/strings.h"
#include "tools/infer_bench/compare/saved.h"

namespace infer {
namespace {

/// What two entries of a history have to share. `name`: of --series.
Json SeriesOf(const SavedSeries& s, const Json& machine, const std::string& name) {
  if (!name.empty()) return {{"name", Cat(name, " ", s.label)}, {"machine", machine}};
  Json series = {{"label", s.label}, {"model", s.model}, {"machine", machine}};
  series.update(s.settings);
  return series;
}

void Show(Context& context, const SavedPair& pair) {
  const Conclusion& c = pair.conclusion;
  context.PrintLine(Cat(c.title, ": ", c.a_ms, " ms, ", c.b_ms, " ms (", c.basis, ")"));
  context.PrintLine(Cat("  ", Sentence(c)));
  if (pair.of_runs)
    context.PrintLine(
        Cat("  single runs of the first start, no verdict: ", Percent(pair.of_runs->value), " (",
            Percent(pair.of_runs->low), " to ", Percent(pair.of_runs->high), ")"));
}

}  // namespace

void TellingOptions::Declare(Options& o) {
  o.Section("Output");
  o.Share("--min-effect", &min_effect, "Smaller differences are none (1.5%)");
  o.Share("--fail-above", &fail_above,
          "Exit with 1 where B is slower by more than this (0%: by anything that counts)");
  o.Flag("--strict", &strict, "Exit with 1, not 6, where nothing can be said");
  o.Flag("--allow-inconclusive", &allow_inconclusive, "Exit with 0 where nothing can be said");
  o.Value("--history", &history,
          "JSONL file: a line is appended for the comparison, and its series' noise is learnt from "
          "what is there",
          PathUse::kWrite);
  o.Value("--series", &series, "Name of the series in the history, instead of model and settings");
  o.Choice("--format", &format, {"table", "github", "markdown"},
           "How the result is printed; github: lines that annotate a pull request");
  o.Value("--summary", &summary, "File that a Markdown table is appended to ($GITHUB_STEP_SUMMARY)",
          PathUse::kWrite);
  html.Declare(o);
}

void TellingOptions::Gate(Conclusion& c) const {
  c.fails = (strict && c.verdict == Verdict::kInconclusive) ||
            (c.verdict == Verdict::kSlower && c.effect.value > fail_above);
}

Status TellingOptions::Tell(Context& context, const std::vector<Conclusion>& all) const {
  for (const Conclusion& c : all)
    if (c.verdict == Verdict::kInconclusive) context.Warn(Cat(c.title, ": ", Sentence(c)));
  if (format == "github") context.Print(GithubCommands(all));
  if (format == "markdown") context.Print(MarkdownTable(all));
  if (summary.empty()) return {};
  std::ofstream out(summary, std::ios::app);
  out << "### infer-bench compare\n\n" << MarkdownTable(all) << "\n";
  out.close();
  if (!out) return IoError(Cat(summary, ": cannot be written"));
  return {};
}

Result<History> TellingOptions::Read(Context& context) const {
  if (history.empty()) return History{};
  INFER_ASSIGN(History h, ReadHistory(history));
  constexpr size_t kTold = 5;
  for (size_t i = 0; i < std::min(kTold, h.damaged.size()); ++i)
    context.Warn(Cat(history, ", ", h.damaged[i]));
  if (h.damaged.size() > kTold)
    context.Warn(Cat(history, ": ", h.damaged.size() - kTold, " more damaged lines"));
  return h;
}

Status TellingOptions::WritePage(Context& context, const Json& report) const {
  std::vector<PagePart> histories;
  if (html.wanted() && !history.empty()) {
    INFER_ASSIGN(const History all, ReadHistory(history));
    histories.push_back({history, HistorySeries(all)});
  }
  return html.Write(context, report, histories);
}

Result<ExitCode> RunSaved(Context& context, const std::vector<std::string> (&paths)[2],
                          const size_t (&of_compare)[2], const TellingOptions& options) {
  std::vector<SavedReport> sides;
  for (size_t k = 0; k < 2; ++k) {
    std::vector<SavedReport> reports;
    for (const std::string& path : paths[k]) {
      INFER_ASSIGN(SavedReport r, ReadSavedReport(path, of_compare[k]));
      reports.push_back(std::move(r));
    }
    INFER_ASSIGN(SavedReport merged, Merge(std::move(reports)));
    sides.push_back(std::move(merged));
  }
  INFER_ASSIGN(const History history, options.Read(context));
  const auto series_of = [&](const SavedSeries& s) {
    return SeriesOf(s, sides[1].machine, options.series);
  };
  SavedOptions how{options.min_effect, [&](const SavedSeries& s) {
                     return LearnFloor(history.entries, series_of(s), "files");
                   }};
  std::vector<std::string> unmatched;
  std::vector<SavedPair> pairs = CompareSaved(sides[0], sides[1], how, unmatched);
  for (const std::string& text : unmatched) context.Warn(text);
  if (pairs.empty()) return InvalidArgument("the reports have nothing in common");

  Json report = NewReport(context, "infer-bench/compare-files@1");
  report["settings"] = {{"min_effect", options.min_effect},
                        {"fail_above", options.fail_above},
                        {"strict", options.strict}};
  for (size_t k : {0u, 1u})
    report[k == 0 ? "a" : "b"] = {{"reports", paths[k]}, {"format", sides[k].format}};
  report["pairs"] = Json::array();
  std::vector<Conclusion> all;
  bool fails = false, open = false;
  for (SavedPair& pair : pairs) {
    options.Gate(pair.conclusion);
    fails = fails || pair.conclusion.fails;
    open = open || pair.conclusion.verdict == Verdict::kInconclusive;
    report["pairs"].push_back(ToJson(pair));
    all.push_back(pair.conclusion);
    const Conclusion& c = pair.conclusion;
    if (options.format == "table") Show(context, pair);
    if (!options.history.empty()) {
      const double a = Quantile(pair.a.starts_ms, 0.5), b = Quantile(pair.b.starts_ms, 0.5);
      INFER_TRY(AppendHistory(options.history, {"files", series_of(pair.b), b / a - 1, b,
                                                static_cast<int>(pair.b.starts_ms.size()),
                                                std::string(Name(c.verdict)), UtcNow()}));
    }
  }
  if (options.history.empty())
    context.Note(
        "measured at different times: what the machine did in between counts as a "
        "difference (--history learns how much that is)");
  report["unmatched"] = unmatched;
  report["passed"] = !fails;
  INFER_TRY(options.Tell(context, all));
  INFER_TRY(options.WritePage(context, report));
  INFER_TRY(WriteReport(context, std::move(report)));
  return GateExit(fails, open, options.allow_inconclusive);
}

}  // namespace infer
