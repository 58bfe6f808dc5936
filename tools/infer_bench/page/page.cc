#include "tools/infer_bench/page/page.h"

#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tools/common/html_page.h"
#include "tools/common/version.h"

namespace infer {

std::string ReportPageTemplate();  // made of report_page.html, its styles and its scripts

namespace {

constexpr std::string_view kDataMark = "REPORT_PAGE_DATA";

Json ToJson(const std::vector<PagePart>& parts, const char* name) {
  Json out = Json::array();
  for (const PagePart& p : parts) out.push_back({{"path", p.path}, {name, p.json}});
  return out;
}

/// With the warnings and timings that the written report has.
Json Finished(const Context& context, const Json& report) {
  return Json::parse(ReportText(context, report));
}

}  // namespace

std::string ReportPage(const PageContent& content) {
  const Json data = {{"version", kVersion},
                     {"reports", ToJson(content.reports, "report")},
                     {"histories", ToJson(content.histories, "history")}};
  return PageWithData(ReportPageTemplate(), kDataMark, data);
}

void HtmlOption::Declare(Options& o) {
  o.Value("--html", &path_, "Write the report as a page for people, too; see infer-bench report",
          PathUse::kWrite);
}

Status HtmlOption::Write(Context& context, const Json& report,
                         const std::vector<PagePart>& histories) const {
  if (!wanted()) return {};
  context.Step("");
  return WriteFileAtomically(path_, ReportPage({{{"", Finished(context, report)}}, histories}));
}

std::function<void()> HtmlOption::LastWords(const Context& context, const Json& partial) const {
  if (!wanted()) return {};
  return [path = path_, report = Finished(context, partial)] {
    (void)WriteFileAtomically(path, ReportPage({{{"", report}}, {}}));
  };
}

}  // namespace infer
