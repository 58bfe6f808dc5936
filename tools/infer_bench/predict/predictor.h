#pragma once
/// Predicts what a run takes, from a model's plan and a machine's profile: without running it.
#include "tools/infer_bench/predict/profile.h"

namespace infer::bench {

inline constexpr std::string_view kBodies = "bodies";

struct StepPrediction {
  std::string family;  ///< that priced it; kBodies: its bodies' steps; "": no launch, so no time
  double ms = 0;
  /// 0: its own family; 1 to 3: only a more general one is known (features.h).
  int generality = 0;
  bool extrapolated = false;  ///< an amount that matters is beyond twice what was measured
};

struct Prediction {
  double ms = 0;
  std::vector<StepPrediction> steps;  ///< as PlanFacts::steps
  /// Shares of the predicted time.
  double general_share = 0;       ///< priced by a class or more general family
  double extrapolated_share = 0;  ///< beyond what was measured
  int unpredictable = 0;  ///< steps, in bodies too, whose shapes hang on data: counted as 0 ms
  int counted_once = 0;   ///< bodies whose number of runs hangs on data
};

/// InvalidArgument: the profile has no such number of threads, or nothing that fits a step.
Result<Prediction> Predict(const PlanFacts& plan, const Profile& profile, int threads);

/// Compiles `g`, whose input extents are all known, and predicts.
Result<Prediction> PredictGraph(const Graph& g, const DeviceOptions& options,
                                const Profile& profile);

}  // namespace infer::bench
