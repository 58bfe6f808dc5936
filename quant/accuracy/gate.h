#pragma once
/// Gates: limits that a candidate must keep. Plain functions of what was measured.
///
/// A number that was measured on samples comes with its 95 % interval: the gate passes where the
/// whole interval keeps the limit, fails where none of it does, and is inconclusive between. What
/// is inconclusive fails too, unless the user takes it (allow_inconclusive).
#include <optional>
#include <string>
#include <vector>

#include "quant/accuracy/compare.h"

namespace infer {

struct GateLimits {
  /// Largest loss of top-1 accuracy, as a fraction (0.005 = 0.5 points). Needs labels.
  std::optional<double> max_drop;
  /// Largest rise of perplexity, as a fraction. Needs a causal language model.
  std::optional<double> max_perplexity_rise;
  std::optional<double> min_sqnr_db;      ///< of every float output
  std::optional<double> min_cosine;       ///< of every float output
  std::optional<double> max_error_ratio;  ///< max|d| / max|golden| of every float output
  /// Least share of rows with golden's top-1 class, of every output with rows.
  std::optional<double> min_agreement;
  bool allow_inconclusive = false;
  bool without_intervals = false;  ///< what was measured decides as it stands
};

/// A limit on bytes: so many, or a share of golden's.
struct SizeLimit {
  double value = 0;
  bool is_share = false;
};
/// "25MB", "25 MiB", "30000" (bytes), "0.3x" or "30%". InvalidArgument for anything else.
Result<SizeLimit> ParseSizeLimit(std::string_view text);

struct GateResult {
  std::string name;   ///< "max-drop", "min-sqnr", ...
  std::string where;  ///< output, or "" for the task metric
  double limit = 0;
  double measured = 0;
  bool passed = false;
  /// The 95 % interval of `measured`, where samples decide.
  std::optional<Interval> interval = {};
  std::string message = {};   ///< one line for people
  bool inconclusive = false;  ///< the interval holds the limit
  int64_t samples = 0;        ///< on which `measured` stands; 0: not known
  /// Of an inconclusive gate: about so many samples like these would decide it; 0: no number would,
  /// or nobody can tell.
  int64_t samples_needed = 0;
};

enum class GateVerdict : uint8_t { kPassed, kFailed, kInconclusive };
/// "passed", "failed", "inconclusive".
std::string_view Name(GateVerdict v);
/// Failed where one gate failed beyond doubt; inconclusive where others could not be decided.
GateVerdict VerdictOf(const std::vector<GateResult>& results);

/// One result per limit and output that it applies to. A limit that applies to nothing (no labels,
/// no float output) is a failed result that says so: a gate never passes unmeasured.
std::vector<GateResult> CheckGates(const AccuracyReport& report, const GateLimits& limits);
/// `golden_bytes` < 0: not known; then a share cannot be measured.
GateResult CheckSize(SizeLimit limit, int64_t golden_bytes, int64_t candidate_bytes);
/// `speedup`: golden's time / the candidate's, with its interval.
GateResult CheckSpeedup(double limit, double speedup, Interval interval, bool allow_inconclusive);
/// Of a metric of the user's own, of which more is better: the loss is at most `max_drop`, in the
/// metric's unit. One number has no interval, so that what was measured decides.
GateResult CheckMetric(double max_drop, double golden, double candidate);
bool AllPassed(const std::vector<GateResult>& results);

}  // namespace infer
