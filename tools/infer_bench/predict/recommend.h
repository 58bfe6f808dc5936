#pragma once
/// Times of all settings that may be had, predicted, and what they speak for.
#include "tools/bench/session.h"
#include "tools/infer_bench/predict/advice.h"

namespace infer::bench {

struct PredictedGrid {
  std::vector<std::string> paths;  ///< the model, and variants of it
  std::vector<std::string> batches, precisions;
  double within_ms = 0;  ///< of a run; 0: no limit
};

struct PredictedSettings {
  std::vector<PredictedSetting> settings;  ///< what is now in front
  Json unavailable;                        ///< those that a model does not take, with the reason
};

/// InvalidArgument: a batch that is no number above 0; the status of the first setting, where it
/// cannot be had.
Result<PredictedSettings> PredictSettings(Context& context, const PredictedGrid& grid,
                                          const SessionOptions& session, const Profile& profile);

/// The settings that predictions speak for, beside those of now: the first path, batch and
/// precision on the session's threads. Status as by PredictSettings.
Result<Json> RecommendByPrediction(Context& context, const PredictedGrid& grid,
                                   const SessionOptions& session, const Profile& profile);

}  // namespace infer::bench
