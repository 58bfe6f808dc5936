#pragma once
/// Which batch, lanes, variant and precision predicted times speak for: values in, values out.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/infer_bench/predict/predictor.h"

namespace infer::bench {

/// A setting with the time that is predicted for it.
struct PredictedSetting {
  std::string path;  ///< which variant
  std::string precision;
  int64_t batch = 1;  ///< samples of a run
  int threads = 1;    ///< of a run
  int lanes = 1;      ///< runs at once
  double ms = 0;      ///< of a run
  double error = 0;   ///< of `ms`, as a share: ErrorOf
  /// With runs at once that do not slow each other.
  double samples_per_s() const { return 1e3 * lanes * static_cast<double>(batch) / ms; }
  std::string Name() const;
};

/// The usual error of the prediction: the median errors of the families that priced it, on
/// programs that they were not fitted to, times their shares of the time. Families err by
/// themselves (squares add up), the steps of one family alike.
double ErrorOf(const Prediction& p, const LaneProfile& profile);

enum class PredictedKnob : uint8_t { kBatch, kLanes, kVariant, kPrecision };
std::string_view Name(PredictedKnob k);

/// One change; the settings before and behind it are its evidence.
struct PredictedAdvice {
  PredictedKnob knob = PredictedKnob::kBatch;
  size_t from = 0, to = 0;   ///< positions
  bool keeps_limit = false;  ///< the setting before it does not
  /// More samples per second, as a share, by the errors of both, whose squares add up. Of more
  /// lanes `low` is at most 0, since runs may wait for the same memory.
  double low = 0, high = 0;
};

struct AdvisedByPrediction {
  std::vector<PredictedAdvice> changes;  ///< one behind the other, the largest first
  size_t chosen = 0;                     ///< behind all of them
  std::string none;                      ///< why there is no change; "": there is one
};

/// From setting `now`, one change at a time, to the most samples per second that are certain: a
/// change whose gain both errors together could have made is none. A run, with its error, takes at
/// most `within_ms`; 0: as long as it takes. Pre: now < settings.size(), every ms above 0.
AdvisedByPrediction AdviseByPrediction(std::span<const PredictedSetting> settings, size_t now,
                                       double within_ms);

}  // namespace infer::bench
