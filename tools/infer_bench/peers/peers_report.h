#pragma once
/// The outcomes of `infer-bench peers` as JSON and as tables.
#include "tools/infer_bench/peers/model_contest.h"

namespace infer::peers {

/// An engine before any model.
struct EngineState {
  EngineSpec spec;
  Json versions = Json::object();
  std::string failure;  ///< "": it can run
  bool missing = false;
};

/// One row of the summary: the first engine against a peer over all models with a ratio.
struct GeometricRow {
  std::string peer;
  int threads = 0;
  std::vector<std::string> models, left_out;
  Ratio ratio;  ///< where there is a model
};

struct NamedOutcome {
  std::string path;
  ModelOutcome outcome;
};

std::vector<GeometricRow> GeometricRows(const std::vector<NamedOutcome>& outcomes);

Json ToJson(const EngineState& engine);
Json ToJson(const ModelOutcome& outcome);
/// `max_ratio` <= 0: no gate.
Json GatedJson(const Comparison& comparison, double max_ratio);
Json ToJson(const GeometricRow& row);

/// One row for each engine of each model, then one for each geometric mean of several models.
std::string OutcomeTable(const std::vector<NamedOutcome>& outcomes,
                         const std::vector<GeometricRow>& means);

}  // namespace infer::peers
