#pragma once
/// Reports as one HTML page that needs nothing else: distributions, layers, roofline, load, drift,
/// comparisons, histories. The page is report_page.html; the scripts beside it draw.
#include <functional>
#include <string>
#include <vector>

#include "tools/common/report.h"

namespace infer {

struct PagePart {
  std::string path;  ///< where it was read; "": it was made by the command itself
  Json json;
};

struct PageContent {
  std::vector<PagePart> reports;    ///< as ReadReport lets them through
  std::vector<PagePart> histories;  ///< HistorySeries (tools/infer_bench/compare/history.h)
};

std::string ReportPage(const PageContent& content);

/// --html of the commands that measure.
class HtmlOption {
 public:
  void Declare(Options& options);
  bool wanted() const { return !path_.empty(); }
  /// The page of a report, and of the history that it was added to. Nothing where none was asked
  /// for. Io.
  Status Write(Context& context, const Json& report,
               const std::vector<PagePart>& histories = {}) const;
  /// Does the same for a report of unfinished work, later. Empty where none was asked for.
  std::function<void()> LastWords(const Context& context, const Json& partial) const;

 private:
  std::string path_;
};

}  // namespace infer
