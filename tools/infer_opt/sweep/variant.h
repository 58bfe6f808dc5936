#pragma once
/// Variants of one model side by side: what there are, and what is told of them.
#include <optional>

#include "quant/accuracy/compare.h"
#include "tools/bench/cold.h"
#include "tools/common/pair_timing.h"
#include "tools/common/report.h"
#include "tools/common/sweep_choice.h"

namespace infer {

/// The model as it came and every preset whose mode this build has.
std::vector<VariantSpec> PresetVariants(const std::vector<std::string>& modes,
                                        const std::string& budget);
/// "ID=MODE --option value ...". InvalidArgument: not of that form, or no such mode.
Result<VariantSpec> ParseVariant(const std::string& text, const std::vector<std::string>& modes);

/// As the file of a variant is measured; nullopt: without data.
Json MeasuredJson(const std::optional<AccuracyReport>& accuracy, const PairTiming& timing);
/// Peaks of a fresh process that loads the file, compiles it and runs it once, beside what is
/// planned for running.
Json MemoryJson(const bench::ColdStart& start, const MemoryInfo& planned);

/// The key of its measurements in a log: id, mode and arguments.
std::string KeyOf(const VariantSpec& spec);

Json ToJson(const Variant& v, const Variant& golden, bool recommended);
/// For a server that picks a variant: [{id, path, dtype, quantization, device, size_mb,
/// latency_ms, peak_memory_mb, accuracy_score, accuracy_metric, sha256, model_sha256, pruning,
/// sparsity}].
Json VariantsJson(const std::vector<Variant>& variants, const std::string& model_sha256);
std::string ToText(const std::vector<Variant>& variants, const Recommendation& r);
/// A page that needs nothing else: plots and table of a report's "variants".
std::string SweepPage(const Json& report);

}  // namespace infer
