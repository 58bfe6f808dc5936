#include "quant/accuracy/breaking.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "quant/calibrate/calibrate.h"

namespace infer {
namespace {

constexpr size_t kChunk = 48;

/// Judges one inner value by the limits that mean something for it.
bool Keeps(const ValueAccuracy& v, const BreakOptions& options) {
  BreakOptions inner = options;
  inner.limits.max_drop.reset();
  inner.limits.max_perplexity_rise.reset();
  inner.limits.min_agreement.reset();
  AccuracyReport one;
  one.outputs = {v};
  return Keeps(one, inner);
}

bool JudgesValues(const GateLimits& l) {
  return l.min_sqnr_db || l.min_cosine || l.max_error_ratio;
}

class Breaking {
 public:
  Breaking(const LayerMap& map, const Backend& backend, const Samples& samples,
           const BreakOptions& options)
      : map_(map), backend_(backend), options_(options) {
    std::vector<int64_t> first;
    for (int64_t i = 0; i < std::min(options.runs.samples, samples.count); ++i) first.push_back(i);
    samples_ = Subset(samples, first);
    compare_.candidate_level = options.runs.level;
    compare_.next_token = options.next_token;
    compare_.threads = options.runs.threads;
    compare_.stop = options.runs.stop;
  }

  Status RunGolden() {
    INFER_ASSIGN(golden_, KeptGolden(map_, backend_, samples_, options_.runs));
    return {};
  }

  Result<bool> Breaks(const std::vector<size_t>& layers) const {
    INFER_ASSIGN(const Graph mixed, map_.Mix(layers));
    INFER_ASSIGN(const auto report,
                 CompareWithStored(golden_, mixed, backend_, samples_, compare_));
    return !Keeps(report, options_);
  }

  /// Goes through the layers in order, so many at a time.
  Status FindFirst(BreakReport& r) const {
    if (!JudgesValues(options_.limits)) return {};
    INFER_ASSIGN(const Graph golden, map_.Mix({}));
    INFER_ASSIGN(const Graph candidate, map_.Mix(map_.Changed()));
    for (size_t at = 0; at < map_.layers().size(); at += kChunk) {
      std::vector<std::string> names;
      for (size_t i = at; i < std::min(at + kChunk, map_.layers().size()); ++i)
        names.push_back(map_.layers()[i].name());
      INFER_ASSIGN(const auto found, Values(golden, candidate, names));
      for (size_t k = 0; k < names.size(); ++k) {
        if (Keeps(found[k], options_)) continue;
        r.first = at + k;
        r.first_metrics = found[k].metrics;
        return {};
      }
    }
    return {};
  }

  /// Guiltiest first.
  Result<std::vector<IsolatedLayer>> Ranking() const {
    IsolateOptions runs = options_.runs;
    runs.golden = golden_;
    return IsolateLayers(map_, backend_, samples_, runs);
  }

 private:
  Result<std::vector<ValueAccuracy>> Values(const Graph& golden, const Graph& candidate,
                                            const std::vector<std::string>& names) const {
    CompileOptions compile;
    compile.level = compare_.candidate_level;
    compile.threads = compare_.threads;
    INFER_ASSIGN(const TappedProgram g, CompileWithTaps(golden, names, backend_, compile));
    INFER_ASSIGN(const TappedProgram c, CompileWithTaps(candidate, names, backend_, compile));
    std::vector<TensorComparer> comparers(names.size());
    for (int64_t s = 0; s < samples_.count; ++s) {
      if (compare_.stop.stop_requested()) return Cancelled("comparison was stopped");
      INFER_ASSIGN(const auto inputs, samples_.get(s));
      INFER_TRY(RunInputs(*g.context, inputs, compare_.stop));
      INFER_TRY(RunInputs(*c.context, inputs, compare_.stop));
      for (size_t k = 0; k < names.size(); ++k)
        INFER_TRY(comparers[k]
                      .Add(g.context->output(g.num_outputs + k).tensor(),
                           c.context->output(c.num_outputs + k).tensor())
                      .In(names[k]));
    }
    std::vector<ValueAccuracy> values;
    for (size_t k = 0; k < names.size(); ++k) {
      ValueAccuracy v;
      v.name = names[k];
      v.is_float = IsFloat(golden.FindValue(names[k])->dtype());
      v.metrics = comparers[k].metrics();
      values.push_back(std::move(v));
    }
    return values;
  }

  const LayerMap& map_;
  const Backend& backend_;
  const BreakOptions& options_;
  Samples samples_;
  CompareOptions compare_;
  OutputSource golden_;
};

}  // namespace

bool Keeps(const AccuracyReport& report, const BreakOptions& options) {
  GateLimits limits = options.limits;
  limits.without_intervals = true;
  for (const ValueAccuracy& v : report.outputs) {
    if (!options.exact) break;
    if (v.metrics.non_finite_mismatches > 0 || v.metrics.unequal > 0) return false;
  }
  const std::vector<GateResult> gates = CheckGates(report, limits);
  // Of a gate that no output has, nothing can be said.
  return std::all_of(gates.begin(), gates.end(), [](const GateResult& g) {
    const bool of_task = g.name == "max-drop" || g.name == "max-perplexity-rise";
    return g.passed || (g.where.empty() && !of_task);
  });
}

Result<BreakReport> FindBreakingLayers(const LayerMap& map, const Backend& backend,
                                       const Samples& samples, const BreakOptions& options) {
  const std::vector<size_t> changed = map.Changed();
  BreakReport r;
  if (changed.empty()) return r;
  Breaking breaking(map, backend, samples, options);
  INFER_TRY(breaking.RunGolden());
  INFER_ASSIGN(r.breaks, breaking.Breaks(changed));
  if (!r.breaks) return r;
  INFER_TRY(breaking.FindFirst(r));
  INFER_ASSIGN(r.ranking, breaking.Ranking());
  std::vector<size_t> ranked;
  for (const IsolatedLayer& l : r.ranking) ranked.push_back(l.layer);
  INFER_ASSIGN(r.set,
               FindMinimalSet(
                   ranked, [&](const auto& s) { return breaking.Breaks(s); }, options.max_tries));
  return r;
}

}  // namespace infer
