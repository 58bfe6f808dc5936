#pragma once
/// Variants of one model side by side: what was measured of each, and which one to take.
#include <string>
#include <vector>

#include "tools/common/eval_command.h"
#include "tools/common/report.h"

namespace infer {

struct VariantSpec {
  std::string id;
  std::string mode;                    ///< of `quantize`; "": the model as it came
  std::vector<std::string> arguments;  ///< the mode's options, and --format
  std::string dtype;                   ///< "fp32", "int8", ...
};

/// A variant with its measurements, and whether it is good enough.
///
/// `measured` is what the report has of it: path, device, sha256, bytes, sparsity, latency_ms,
/// speed_up, memory, accuracy_score, accuracy_delta and, with data, accuracy; with an eval command
/// its number, eval_score. What decides is read from there, so a sweep that goes on after a kill
/// decides what it would have decided.
struct Variant {
  VariantSpec spec;
  std::string failure;  ///< why there is none; `measured` is empty then
  Json measured = Json::object();
  bool acceptable = false, pareto = false;

  bool made() const { return failure.empty(); }
  int64_t bytes() const;
  double speed_up() const;  ///< median
  /// Top-1 with labels, else the least cosine of an output; 1 without data.
  double score() const;
  /// score() minus that of the model as it came.
  double delta() const;
};

struct Recommendation {
  std::string id, why;
};

/// The condition for a variant to be recommended: with labels a loss of at most `max_drop`, or one
/// that may be chance (exact McNemar test, p >= 0.05) while the top-1 class agrees in 98 % of the
/// samples; without labels an SQNR of every output of at least 25 dB.
/// With an eval command its number decides instead: that of the first variant is golden.
void Judge(std::vector<Variant>& variants, double max_drop, const EvalFlags& eval = {});
/// The acceptable variant of the largest speed-up, or of those that are not slower beyond doubt the
/// smallest: among those within 1 % of its bytes the one with the best score. Pre: judged, the
/// first variant is the model as it came.
Recommendation Recommend(const std::vector<Variant>& variants);

/// The least `name` of the float outputs; `otherwise` where there is none.
double LeastOf(const Json& accuracy, const char* name, double otherwise);
double LeastSqnr(const Json& accuracy);
/// Of the bytes of `golden`.
double SizeRatio(const Variant& v, const Variant& golden);
/// Pre: an eval command gave one.
double EvalScore(const Variant& v);
/// "+0.50", "-1.20": hundredths.
std::string SignedPercent(double share);
/// "1.52 [1.50, 1.55]"
std::string SpeedUpText(const Variant& v);

}  // namespace infer
