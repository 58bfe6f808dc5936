#include "quant/accuracy/isolate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "lib/support/measure.h"
#include "lib/support/strings.h"
#include "quant/calibrate/calibrate.h"

namespace infer {
namespace {

constexpr size_t kLayersAtOnce = 48;

double SqnrOf(const ValueAccuracy& v) {
  if (v.metrics.non_finite_mismatches > 0) return -std::numeric_limits<double>::infinity();
  if (v.is_float) return v.metrics.sqnr_db;
  if (v.metrics.unequal == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(static_cast<double>(v.metrics.elements) /
                         static_cast<double>(v.metrics.unequal));
}

/// Local metrics of these layers, which one program computes in both forms.
Result<std::vector<TensorMetrics>> LocalErrors(const LayerMap& map,
                                               const std::vector<size_t>& layers,
                                               const Backend& backend, const Samples& samples,
                                               const IsolateOptions& options) {
  INFER_ASSIGN(const Graph twins, map.Twins(layers));
  INFER_ASSIGN(OutputSource run,
               RunsOf(twins, backend, options.level, options.threads, options.stop));
  std::vector<TensorComparer> comparers(layers.size());
  for (int64_t s = 0; s < samples.count; ++s) {
    if (options.stop.stop_requested()) return Cancelled("comparison was stopped");
    INFER_ASSIGN(const auto inputs, samples.get(s));
    INFER_ASSIGN(const auto outputs, run(s, inputs));
    for (size_t k = 0; k < layers.size(); ++k)
      INFER_TRY(comparers[k]
                    .Add(outputs[k].tensor(), outputs[layers.size() + k].tensor())
                    .In(map.layers()[layers[k]].name()));
  }
  std::vector<TensorMetrics> metrics;
  for (const TensorComparer& c : comparers) metrics.push_back(c.metrics());
  return metrics;
}

}  // namespace

Result<OutputSource> KeptGolden(const LayerMap& map, const Backend& backend, const Samples& samples,
                                const IsolateOptions& options) {
  INFER_ASSIGN(const Graph golden, map.Mix({}));
  INFER_ASSIGN(const OutputSource run,
               RunsOf(golden, backend, options.level, options.threads, options.stop));
  return Kept(run, samples);
}

double OutputSqnr(const AccuracyReport& report) {
  double worst = std::numeric_limits<double>::infinity();
  for (const ValueAccuracy& v : report.outputs) worst = std::min(worst, SqnrOf(v));
  return worst;
}

Result<std::vector<IsolatedLayer>> IsolateLayers(const LayerMap& map, const Backend& backend,
                                                 const Samples& samples,
                                                 const IsolateOptions& options) {
  std::vector<int64_t> first;
  for (int64_t i = 0; i < std::min(options.samples, samples.count); ++i) first.push_back(i);
  const Samples few = Subset(samples, first);
  const std::vector<size_t> changed = map.Changed();
  std::vector<IsolatedLayer> found;
  for (size_t at = 0; at < changed.size(); at += kLayersAtOnce) {
    const std::vector<size_t> chunk(
        changed.begin() + static_cast<ptrdiff_t>(at),
        changed.begin() + static_cast<ptrdiff_t>(std::min(at + kLayersAtOnce, changed.size())));
    INFER_ASSIGN(const auto local, LocalErrors(map, chunk, backend, few, options));
    for (size_t k = 0; k < chunk.size(); ++k)
      found.push_back({chunk[k], map.layers()[chunk[k]].name(), map.OpsOf(chunk[k], Side::kGolden),
                       map.OpsOf(chunk[k], Side::kCandidate), local[k], std::nullopt});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.local.sqnr_db < b.local.sqnr_db; });

  INFER_ASSIGN(const OutputSource kept, options.golden ? Result<OutputSource>(options.golden)
                                                       : KeptGolden(map, backend, few, options));
  CompareOptions compare;
  compare.candidate_level = options.level;
  compare.threads = options.threads;
  compare.stop = options.stop;
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < found.size(); ++i) {
    if (i > 0 && MsSince(start) > 1e3 * options.budget_s) break;
    INFER_ASSIGN(const Graph mixed, map.Mix({found[i].layer}));
    auto report = CompareWithStored(kept, mixed, backend, few, compare);
    if (!report.ok()) return std::move(report.status()).In(found[i].name);
    found[i].output_sqnr_db = OutputSqnr(*report);
    if (options.progress)
      options.progress(static_cast<int64_t>(i + 1), static_cast<int64_t>(found.size()));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    if (a.output_sqnr_db && b.output_sqnr_db) return *a.output_sqnr_db < *b.output_sqnr_db;
    return a.output_sqnr_db.has_value() && !b.output_sqnr_db.has_value();
  });
  return found;
}

}  // namespace infer
