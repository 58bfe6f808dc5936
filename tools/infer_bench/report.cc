/// infer-bench report: reports in JSON as one HTML page.
#include <filesystem>

#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/compare/history.h"
#include "tools/infer_bench/page/page.h"
#include "tools/infer_bench/page/report_file.h"

namespace infer {
namespace {

class ReportCommand : public Command {
 public:
  std::string_view name() const override { return "report"; }
  std::string_view help() const override {
    return "Make one HTML page of reports, for people: it needs no network and no other file";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench report bench.json -o bench.html\n"
           "  infer-bench report load.json soak.json compare.json -o release.html\n"
           "  infer-bench report quantize.json -o quantize.html\n"
           "  infer-bench report --history history.jsonl -o history.html\n";
  }
  void Declare(Options& o) override {
    o.Positional("reports", &paths_,
                 "JSON reports: run, compare, load, soak, peers, predict, kernels; infer-opt "
                 "quantize, compare",
                 false, PathUse::kRead);
    o.Values("--history", &histories_, "Histories that compare wrote (JSONL)", PathUse::kRead);
    o.Value("-o,--output", &output_, "The HTML file to write", PathUse::kWrite);
  }

  Result<ExitCode> Run(Context& context) override {
    if (output_.empty()) return InvalidArgument("-o FILE is missing");
    if (paths_.empty() && histories_.empty())
      return InvalidArgument("nothing to show: give reports or a --history");
    if (!context.json_path.empty())
      return InvalidArgument("--json: what report reads is JSON already; it writes a page only");
    PageContent content;
    for (const std::string& path : paths_) {
      if (path.ends_with(".jsonl"))
        return InvalidArgument(Cat(path, ": lines of JSON; a history is given as --history"));
      INFER_ASSIGN(Json report, ReadReport(path));
      content.reports.push_back({path, std::move(report)});
    }
    for (const std::string& path : histories_) {
      INFER_ASSIGN(PagePart part, ReadHistoryPart(path));
      content.histories.push_back(std::move(part));
    }
    const std::string page = ReportPage(content);
    INFER_TRY(WriteFileAtomically(output_, page));
    context.PrintLine(Cat("wrote ", output_, ": ", HumanBytes(static_cast<int64_t>(page.size()))));
    return kExitOk;
  }

 private:
  static Result<PagePart> ReadHistoryPart(const std::string& path) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return IoError(Cat(path, ": there is no such file"));
    INFER_ASSIGN(const History history, ReadHistory(path));
    if (history.entries.empty())
      return InvalidModel(Cat(path, ": no line of it is a comparison",
                              history.damaged.empty() ? "" : Cat(" (", history.damaged[0], ")")));
    return PagePart{path, HistorySeries(history)};
  }

  std::vector<std::string> paths_, histories_;
  std::string output_;
};

}  // namespace

std::unique_ptr<Command> MakeReportCommand() { return std::make_unique<ReportCommand>(); }

}  // namespace infer
