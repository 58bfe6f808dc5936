#pragma once
/// What the engine's own figures speak for, as JSON and as text, with the option that tries it.
#include "runtime/engine/recommend.h"
#include "tools/common/report.h"

namespace infer::bench {

/// Of one model, or of one variant of a route.
struct AdvisedModel {
  std::string name;
  engine::Advised advised;
};

/// A list; each entry has the model's name as "variant".
Json RecommendationsJson(const std::vector<AdvisedModel>& models);
/// Why nothing is recommended, of all models; null where something is.
Json NoRecommendationJson(const std::vector<AdvisedModel>& models);
std::string RecommendationsText(const std::vector<AdvisedModel>& models);

}  // namespace infer::bench
