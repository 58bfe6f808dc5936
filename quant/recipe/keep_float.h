#pragma once
/// Which layers to leave in f32 so that the rest reaches a target, and which of those that compute
/// in f32 may store their weights in 8 bits.
#include "quant/recipe/held_out.h"
#include "quant/scheme/quantize.h"

namespace infer {

/// What the held-out samples must show.
struct RecipeTarget {
  double db = 26;        ///< SQNR of every output: what HeldOutError::sure_worst keeps
  double flips = 0.005;  ///< HeldOutError::flips at most (what is chosen by it shows it low), or
  double calm_db = 30;   ///< this SQNR: rows whose best two are level may flip whatever is done
  bool Holds(const HeldOutError& e) const {
    const double found = Decibels(e.sure_worst);
    return found >= db && (e.flips <= flips || found >= calm_db);
  }
};

struct KeepFloatOptions {
  RecipeTarget target;
  int64_t ranking_samples = 8;  ///< held-out samples by which layers are ranked
  std::function<bool()> out_of_time = nullptr;
};
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
