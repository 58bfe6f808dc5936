#pragma once
/// Inside QuantizeByRecipe: the model as it is so far, and the steps that change it. A step is a
/// function of RecipeRunner and a line of kSteps (recipe_steps.cc).
#include <chrono>

#include "quant/algorithm/channel_stats.h"
#include "quant/algorithm/static_rounding.h"
#include "quant/recipe/recipe.h"

namespace infer {

/// Runs steps and keeps the model whose error on the held-out samples is least.
class RecipeRunner {
 public:
  /// Everything lives as long as the runner.
  RecipeRunner(const Graph& original, const Samples& all, const HeldOut& held,
               const Backend& backend, const RecipeOptions& options, WorkClock& clock);

  Status Start(StaticModel model);
  /// The held-out samples fit, too, for want of others.
  void FitToHeldOut() { fits_held_out_ = true; }
  /// The steps of the recipe, in their order (recipe_steps.cc).
  Status RunSteps();
  Result<RecipeReport> Finish(Graph& g, int64_t samples);

 private:
  Status TryChannelScales();
  Status NarrowRanges();
  Status TryObservers();
  Status Equalize();
  Status Smooth();
  Status GroupColumns();
  Status KeepFloat();
  Status PruneWeights();
  /// Ranges from all samples, with what was chosen on the first ones.
  Status CalibrateOnAll();
  Status RoundWeights();
  Status CorrectBias();
  Status CorrectBiasInOrder();
  Status StoreWeights();
  struct Step;
  static const Step kSteps[];

  Status CostOfFused();
  using Change = std::function<Result<std::string>(StaticModel&)>;
  /// Applies `change` to a copy; "" means that it found nothing to do.
  Status Try(const std::string& name, const Change& change);
  /// `memory`: of these samples and the model's graph, or none.
  Status Calibrate(StaticModel& m, const ObserverFactory& observer, const Samples& with,
                   CalibrationMemory* memory = nullptr) const;
  Result<std::string> Recalibrate(StaticModel& m, std::string note,
                                  CalibrationMemory* memory = nullptr) const;
  Result<HeldOutError> ErrorOf(const StaticModel& m) const;
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  bool OutOfTime() const { return clock_.IsOver(); }
  /// So many runs of the model as it is now, with what is done beside them.
  void SpendRuns(int64_t runs);
  Result<double> RoundingSeconds() const;

  const Graph& original_;
  const Samples& all_;
  const Samples fit_;  // what steps are tried with
  const HeldOut& held_;
  const RecipeOptions& options_;
  RecipeTarget target_;
  WorkClock& clock_;
  ChannelRun run_;
  ObserverFactory observer_;
  CalibrationMemory seen_;  // in model_ as it came, of fit_: until steps change the graph
  bool narrowed_ = false;
  bool fits_held_out_ = false;
  StaticModel model_{Graph(original_.ops()), {}, {}};
  Graph fused_{original_.ops()};
  bool is_float_ = false;  // no layer computes in integers
  HeldOutError error_;
  RecipeReport report_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The first `most` of the samples.
Samples FirstOf(const Samples& samples, int64_t most);

}  // namespace infer
