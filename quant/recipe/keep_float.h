#pragma once
/// Which layers to leave in f32 so that the rest reaches a target, and which of those that compute
/// in f32 may store their weights in 8 bits.
#include "quant/recipe/held_out.h"
#include "quant/scheme/quantize.h"

namespace infer {

/// What the held-out samples must show: what the user wants of the task, as far as they can tell.
///
/// With labels for enough rows of scores it is the accuracy: the loss that is expected is at most
/// `max_drop`, or its own standard error where the rows tell no more, and what was counted is not
/// significantly more. Without labels, where the scores are probabilities of enough rows, that few
/// of the best classes change. Else, of outputs that tell nothing of the task, SQNR; so are the
/// outputs but output 0 judged in any case.
struct RecipeTarget {
  double db = 26;           ///< SQNR of every output: what HeldOutError::sure_worst keeps
  double flips = 0.005;     ///< HeldOutError::flips at most (what is chosen by it shows it low), or
  double calm_db = 30;      ///< this SQNR: rows whose best two are level may flip whatever is done
  bool by_task = true;      ///< false: SQNR and flips alone
  double max_drop = 0.005;  ///< of top-1, as a fraction
  /// Where the task is not what decides (`by_task` false) and no more than this of top-1 is
  /// expected to be lost: it holds, as layers in f32 have next to nothing to gain.
  std::optional<double> enough_drop = {};
  double task_flips = 0.02;   ///< of probabilities
  bool asks_classes = false;  ///< somebody asks for `task_flips`: the task is not top-1 alone
  static constexpr int64_t kEnoughRows = 50;
  /// Whether SQNR is what decides on output 0.
  bool IsByNoise(const HeldOutError& e) const {
    return !by_task || (e.labelled < kEnoughRows && (e.rows < kEnoughRows || !e.probabilities));
  }
  /// Whether `enough_drop` is kept, by what is expected and by what was counted.
  bool HasNothingToGain(const HeldOutError& e) const;
  bool Holds(const HeldOutError& e) const;
  /// "top-1 drop", "same classes" or "SQNR": what Holds goes by.
  std::string_view Basis(const HeldOutError& e) const;
};

struct KeepFloatOptions {
  RecipeTarget target;
  int64_t ranking_samples = 8;  ///< held-out samples by which layers are ranked
  std::function<bool()> out_of_time = nullptr;
  std::function<void(int64_t done, int64_t total)> progress = nullptr;  ///< SubsetOptions
  /// What each of WeightedLayers spares as an integer layer, > 0; empty: the work that it does.
  std::vector<double> gain = {};
};
/// The weighted layers that the scheme makes integer, by first result, in topological order.
Result<std::vector<std::string>> WeightedLayers(const StaticModel& model, const Graph& original);
/// What `m` errs on the held-out samples; where nothing is left to quantize, its f32 graph.
Result<HeldOutError> ErrorWith(const StaticModel& m, const Graph& original, const HeldOut& held,
                               int64_t samples);

struct KeepFloatResult {
  std::map<std::string, std::string> keep;  ///< for QuantScheme::keep; what the scheme had included
  HeldOutError error;                       ///< with these kept
  size_t layers = 0;                        ///< integer weighted layers of the model as it came
  bool reached = false;
};
/// Each layer alone is made integer and its error at the outputs measured; as many stay integer as
/// reach the target, those with the least noise for the work that they do first (SearchSubset).
Result<KeepFloatResult> FindLayersToKeep(const StaticModel& model, const Graph& original,
                                         const HeldOut& held, const KeepFloatOptions& options);

struct StoreWeightsOptions {
  RecipeTarget target;
  double growth = 1.05;  ///< the noise may grow by so much whatever the target
  int64_t ranking_samples = 8;
  std::function<bool()> out_of_time = nullptr;
  std::function<void(int64_t done, int64_t total)> progress = nullptr;  ///< SubsetOptions
};
struct StoreWeightsResult {
  std::set<std::string> store;  ///< for QuantScheme::store
  HeldOutError error;
  size_t layers = 0;  ///< that could be stored
};
/// All layers that can be, or as many bytes of them as the error allows. `before`: of the model.
Result<StoreWeightsResult> FindWeightsToStore(const StaticModel& model, const Graph& original,
                                              const HeldOut& held, const HeldOutError& before,
                                              const StoreWeightsOptions& options);

}  // namespace infer
