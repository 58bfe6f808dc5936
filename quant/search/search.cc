#include "quant/search/search.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "quant/search/front.h"

namespace infer {
namespace {

Status MeasureValues(Measuring& m, const MixedModel& model, const Judge& judge,
                     SearchResult& result) {
  INFER_ASSIGN(const MixedGraph int8, model.Apply(model.Uniform(Precision::kInt8)));
  INFER_ASSIGN(result.accumulated, judge.Layers(model.prepared(), int8.graph));
  m.Plan(static_cast<int64_t>(model.values().size()));
  for (const std::string& value : model.values()) {
    INFER_ASSIGN(const auto n, m.Measured(Cat("value ", value), 1, [&]() -> Result<Numbers> {
      INFER_ASSIGN(Graph g, model.RoundOne(value));
      INFER_ASSIGN(const Score s, judge.Of(std::move(g), m.options.layer_samples));
      return s.numbers();
    }));
    if (!n) continue;
    INFER_ASSIGN(const Score score, Score::From(*n));
    result.values.push_back({value, score});
  }
  return {};
}

}  // namespace

const LayerOption* LayerRecord::Find(Precision p) const {
  const auto it = std::find_if(options.begin(), options.end(),
                               [&](const LayerOption& o) { return o.precision == p; });
  return it == options.end() ? nullptr : &*it;
}

bool LimitsOutputs(const GateLimits& limits) {
  return limits.min_sqnr_db || limits.min_cosine || limits.max_error_ratio || limits.min_agreement;
}

bool Keeps(const Score& score, const GateLimits& limits) {
  if (limits.max_drop && score.drop > *limits.max_drop) return false;
  if (LimitsOutputs(limits) && score.mismatches > 0) return false;
  if (limits.min_sqnr_db && score.sqnr_db() < *limits.min_sqnr_db) return false;
  if (limits.min_cosine && score.cosine < *limits.min_cosine) return false;
  if (limits.max_error_ratio && score.error_ratio > *limits.max_error_ratio) return false;
  return !limits.min_agreement || score.agreement >= *limits.min_agreement;
}

Result<SearchResult> SearchPolicy(const MixedModel& model, const Judge& judge,
                                  const Backend& backend, const SearchOptions& options,
                                  MeasurementStore& store) {
  SearchResult result;
  result.measure =
      options.measure.value_or(judge.has_labels() ? ErrorMeasure::kKl : ErrorMeasure::kNoise);
  Measuring measuring(model, judge, options, store, result);
  DatabaseBuilder builder(measuring, backend, result);
  INFER_ASSIGN(LayerDatabase database, builder.Build());
  if (options.per_value) INFER_TRY(MeasureValues(measuring, model, judge, result));
  FrontSearch front(measuring, builder, database, result);
  INFER_TRY(front.Uniform());
  database.EstimateUnscored(result.uniform, result.measure);
  INFER_TRY(front.Choose());
  front.Explain();
  result.layers = database.layers;
  return result;
}

}  // namespace infer
