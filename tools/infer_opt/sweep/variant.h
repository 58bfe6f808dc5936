#pragma once
/// Variants of one model side by side: what each is, what was measured of it, and which one to
/// take.
#include <optional>

#include "quant/accuracy/compare.h"
#include "tools/bench/cold.h"
#include "tools/common/eval_command.h"
#include "tools/common/report.h"
#include "tools/infer_opt/fuse/measure.h"

namespace infer {

struct VariantSpec {
  std::string id;
  std::string mode;                    ///< of `quantize`; "": the model as it came
  std::vector<std::string> arguments;  ///< the mode's options, and --format
  std::string dtype;                   ///< "fp32", "int8", ...
};

/// The model as it came and every preset whose mode this build has.
std::vector<VariantSpec> PresetVariants(const std::vector<std::string>& modes,
                                        const std::string& budget);
/// "ID=MODE --option value ...". InvalidArgument: not of that form, or no such mode.
Result<VariantSpec> ParseVariant(const std::string& text, const std::vector<std::string>& modes);

/// What was measured of a variant, and whether it is good enough.
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

/// As the file of a variant is measured; nullopt: without data.
Json MeasuredJson(const std::optional<AccuracyReport>& accuracy, const PairTiming& timing);
/// Peaks of a fresh process that loads the file, compiles it and runs it once, beside what is
/// planned for running.
Json MemoryJson(const bench::ColdStart& start, const MemoryInfo& planned);

/// The key of its measurements in a log: id, mode and arguments.
std::string KeyOf(const VariantSpec& spec);

struct Recommendation {
  std::string id, why;
};

/// What a variant must keep to be recommended: with labels a loss of at most `max_drop`, or one
/// that may be chance (exact McNemar test, p >= 0.05) while the top-1 class agrees in 98 % of the
/// samples; without labels an SQNR of every output of at least 25 dB.
/// With an eval command its number decides instead: that of the first variant is golden.
void Judge(std::vector<Variant>& variants, double max_drop, const EvalFlags& eval = {});
/// The acceptable variant of the largest speed-up, or of those that are not slower beyond doubt the
/// smallest: among those within 1 % of its bytes the one with the best score. Pre: judged, the
/// first variant is the model as it came.
Recommendation Recommend(const std::vector<Variant>& variants);

Json ToJson(const Variant& v, const Variant& golden, bool recommended);
/// For a server that picks a variant: [{id, path, dtype, quantization, device, size_mb,
/// latency_ms, peak_memory_mb, accuracy_score, accuracy_metric, sha256, model_sha256, pruning,
/// sparsity}].
Json VariantsJson(const std::vector<Variant>& variants, const std::string& model_sha256);
std::string ToText(const std::vector<Variant>& variants, const Recommendation& r);
/// A page that needs nothing else: plots and table of a report's "variants".
std::string SweepPage(const Json& report);

}  // namespace infer
