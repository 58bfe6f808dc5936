#pragma once
/// How an accuracy report looks: as JSON and as tables. Shared by compare, eval, fuse and quantize.
#include "quant/accuracy/gate.h"
#include "tools/common/eval_command.h"
#include "tools/common/report.h"

namespace infer {

Json ToJson(const AccuracyReport& r);
Json ToJson(const std::vector<GateResult>& gates);
/// Outputs (and layers, worst SQNR first) as tables; task metric and gates as lines. `verbose`: the
/// spread of the divergence of scores, too.
std::string AccuracyText(const AccuracyReport& r, bool verbose = false, size_t max_layers = 20);
std::string GateText(const std::vector<GateResult>& gates);

/// --max-drop, --max-perplexity-rise, --min-sqnr, --min-agreement, --max-error, --max-size,
/// --min-speedup,
/// --allow-inconclusive, --eval-command.
struct GateFlags {
  double max_drop = -1, max_perplexity_rise = -1;            ///< < 0: not given
  double min_sqnr = -1, min_agreement = -1, max_error = -1;  ///< < 0: not given
  std::string max_size, min_speedup;                         ///< "": not given
  bool allow_inconclusive = false;
  EvalFlags eval;
  void Declare(Options& options);
  /// InvalidArgument: --max-size or --min-speedup does not parse.
  Status Check() const;
  GateLimits limits() const;
  std::optional<SizeLimit> size() const;  ///< Pre: Check() is ok
  std::optional<double> speedup() const;  ///< Pre: Check() is ok
  /// Of a command with --no-verify: InvalidArgument for any gate.
  Status CheckNotMeasured() const;
  /// 0, 1, or kExitInconclusive.
  static ExitCode ExitOf(GateVerdict verdict);
  /// A gate on outputs.
  bool any() const {
    return max_drop >= 0 || max_perplexity_rise >= 0 || min_sqnr >= 0 || min_agreement >= 0 ||
           max_error >= 0;
  }
};

}  // namespace infer
