#pragma once
/// Predicted times of settings that no request has met yet: values in, values out. Who predicts
/// them (infer-bench predict) is above this library.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace infer::engine {

/// One way to run a model, and what a run of it is predicted to take.
struct Predicted {
  std::string variant = {}, precision = {};  ///< as the user names them
  int64_t rows = 1;                          ///< of a run
  int threads = 1;                           ///< of a run
  int instances = 1;                         ///< runs at once
  double ms = 0;                             ///< above 0
  double error = 0;                          ///< usual one of `ms`, as a share

  double rows_per_s() const { return 1e3 * instances * static_cast<double>(rows) / ms; }
};

/// The differences of two ways to run a model.
enum class PredictedSetting : uint8_t { kRows, kThreads, kVariant, kPrecision };

/// One change, and how many more rows a second it is predicted to give, as a share.
struct PredictedChange {
  PredictedSetting setting = PredictedSetting::kRows;
  Predicted from, to;
  double seen = 1;           ///< time of a run that was seen, over the predicted one
  double low = 0, high = 0;  ///< by the errors of both, whose squares add up
};

/// How the model runs, as it was seen.
struct SeenRuns {
  int64_t rows = 1;       ///< of most runs
  double ms = 0;          ///< mean of such runs
  int64_t max_rows = 1;   ///< by its rules
  bool more_rows = true;  ///< may be in a run: the batch axis is proved, and there is memory
  double within_ms = 0;   ///< that a run may take; 0: any time
};

/// The one change with the most rows a second, of which at least some is certain: a gain that both
/// errors could have made is none. The first of `all` is how the model runs now, but for its rows;
/// without a prediction for those, or where what was seen took less than half or more than twice
/// the predicted time, so that predictions are of another machine or load, there is none. Of more
/// instances the least gain is 0: runs may wait for the same memory.
std::optional<PredictedChange> ChangeByPrediction(std::span<const Predicted> all,
                                                  const SeenRuns& seen);

}  // namespace infer::engine
