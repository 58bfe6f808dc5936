#include "tools/common/verification.h"

#include "lib/support/parallel.h"
#include "lib/support/strings.h"

namespace infer {

Result<RandomRuns> RandomSamples(Context& context, const Graph& g, int64_t runs, uint64_t seed,
                                 const RunGraph& run) {
  ExtentSearch search{.first_batch = 2};
  search.run = [&](const OpenExtents& extents) -> Result<bool> {
    INFER_ASSIGN(const auto inputs, RandomModelInputs(g, seed, extents));
    INFER_ASSIGN(const auto outputs, run(inputs));
    return AnyEmpty(outputs);
  };
  RandomRuns r;
  INFER_ASSIGN(r.extents, FindExtents(g, search));
  context.Note(Cat("checked on ", runs, " random inputs, seed ", seed,
                   r.extents.empty() ? "" : ", with ", ToString(r.extents)));
  r.samples.count = runs;
  r.samples.get = [&g, seed, extents = r.extents](int64_t i) {
    return RandomModelInputs(g, seed + static_cast<uint64_t>(i), extents);
  };
  return r;
}

void AddExactnessGates(const AccuracyReport& r, std::vector<GateResult>& gates) {
  std::erase_if(gates, [](const GateResult& g) {
    return !g.passed && g.where.empty() && g.name == "max-error";
  });
  for (const ValueAccuracy& v : r.outputs) {
    const int64_t bad = v.is_float ? v.metrics.non_finite_mismatches : v.metrics.unequal;
    if (v.is_float && bad == 0) continue;
    const std::string_view what = v.is_float ? " NaN or infinity mismatches" : " elements differ";
    gates.push_back({.name = v.is_float ? "non-finite" : "equal",
                     .where = v.name,
                     .limit = 0,
                     .measured = static_cast<double>(bad),
                     .passed = bad == 0,
                     .interval = std::nullopt,
                     .message = Cat("output '", v.name, "': ", bad, what)});
  }
}

Result<AccuracyReport> CompareGraphs(Context& context, const Graph& golden, const Graph& candidate,
                                     const DeviceOptions& device, const Samples& samples,
                                     bool per_layer) {
  SetLaneBudget(device.threads > 0 ? device.threads : AvailableCores());
  INFER_ASSIGN(auto backend, MakeBackend(device.device));
  CompareOptions options;
  options.per_layer = per_layer;
  options.candidate_level = device.level;
  options.threads = device.threads;
  options.stop = context.stop();
  options.progress = [&](int64_t done, int64_t total) { context.Progress("verify", done, total); };
  INFER_ASSIGN(auto report, Compare(golden, *backend, candidate, *backend, samples, options));
  for (const std::string& w : report.warnings) context.Warn(w);
  return report;
}

}  // namespace infer
