#pragma once
/// What live and saved comparisons share: the history, the gate, and how conclusions are told.
#include "tools/infer_bench/compare/conclusion.h"
#include "tools/infer_bench/compare/history.h"
#include "tools/infer_bench/page/page.h"

namespace infer {

struct TellingOptions {
  std::string format = "table";  ///< or "github", "markdown"
  std::string summary;           ///< file that a Markdown table is appended to; "": none
  std::string history;           ///< file; "": none
  std::string series;            ///< name of the series in the history; "": by model and settings
  double min_effect = 0.015, fail_above = 0;
  bool strict = false, allow_inconclusive = false;
  HtmlOption html;

  void Declare(Options& options);
  /// Sets c.fails: B is slower by more than fail_above, or nothing can be said and strict.
  void Gate(Conclusion& c) const;
  /// Prints what the format asks for (nothing for "table"), and appends to the summary. Io.
  Status Tell(Context& context, const std::vector<Conclusion>& all) const;
  /// The history, its damaged lines as warnings. Empty where none was asked for. Io.
  Result<History> Read(Context& context) const;
  /// The page of --html, with the history as it is now. Io.
  Status WritePage(Context& context, const Json& report) const;
};

/// Compares reports in files. `paths[side]`: several reports are several starts;
/// `of_compare[side]`: which side of a report of `compare` is meant.
Result<ExitCode> RunSaved(Context& context, const std::vector<std::string> (&paths)[2],
                          const size_t (&of_compare)[2], const TellingOptions& options);

}  // namespace infer
