#pragma once
/// Gates: limits that a candidate must keep. Plain functions of an AccuracyReport.
#include <optional>
#include <string>
#include <vector>

#include "quant/accuracy/compare.h"

namespace infer {

struct GateLimits {
  /// Largest loss of top-1 accuracy, as a fraction (0.005 = 0.5 points). Needs labels.
  std::optional<double> max_drop;
  std::optional<double> min_sqnr_db;      ///< of every float output
  std::optional<double> min_cosine;       ///< of every float output
  std::optional<double> max_error_ratio;  ///< max|d| / max|golden| of every float output
  /// Least share of rows with golden's top-1 class, of every output with rows.
  std::optional<double> min_agreement;
};

struct GateResult {
  std::string name;   ///< "max-drop", "min-sqnr", ...
  std::string where;  ///< output, or "" for the task metric
  double limit = 0;
  double measured = 0;
  bool passed = false;
  /// For shares of samples: the 95 % interval of `measured`.
  std::optional<Interval> interval;
  std::string message;  ///< one line for people
};

/// One result per limit and output that it applies to. A limit that applies to nothing (no labels,
/// no float output) is a failed result that says so: a gate never passes unmeasured.
std::vector<GateResult> CheckGates(const AccuracyReport& report, const GateLimits& limits);
bool AllPassed(const std::vector<GateResult>& results);

}  // namespace infer
