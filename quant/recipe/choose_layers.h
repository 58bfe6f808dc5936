#pragma once
/// Which layers compute in integers: candidates are weighed by what the held-out samples show, and
/// by time and file size of a cost table. Nothing is timed here, so the same data and table give
/// the same choice on a busy machine and on an idle one.
#include "quant/recipe/keep_float.h"

namespace infer {

struct ChooseOptions {
  RecipeTarget target;
  const Graph* fused_graph = nullptr;  ///< the model as `fuse` writes it, in FP32
  /// Its cost. Where it has `elsewhere_us`, the held-out samples tell that of candidates, too, and
  /// time that is lost elsewhere counts against time that is gained here.
  ModelCost fused;
  double sure = 1;  ///< CostTable::sure
  /// Whether the table knows the kernels of the backend; else time is no reason.
  bool weigh = true;
  bool may_be_float = true;  ///< "weights" is a candidate
  std::function<bool()> out_of_time = nullptr;
  std::function<void(int64_t done, int64_t total)> progress = nullptr;  ///< SubsetOptions
};

/// One way to quantize the model, by the table and on the held-out samples. Names: "fp32" (fused,
/// not quantized), "fast" (every layer that INT8 covers), "weighted" (those of them that have
/// weights: no products of attention; tried where "fast" would do), "accurate" (layers that the
/// target does not bear return to FP32), "paying" (so do those whose INT8 costs more than it
/// spares), "weights" (the fused model, computing in FP32, with its weights in 8 bits where they
/// can be).
struct RecipeCandidate {
  std::string name;
  ModelCost cost;
  double sqnr_db = 0;       ///< of the worst output
  double drop = 0;          ///< HeldOutError::drop
  double flips = 0;         ///< HeldOutError::flips
  int64_t int8_layers = 0;  ///< weighted layers
  bool holds = false;       ///< the target
  bool chosen = false;
};

struct LayerChoice {
  std::map<std::string, std::string> keep;  ///< for QuantScheme::keep; what the scheme had included
  std::set<std::string> store;              ///< for QuantScheme::store
  std::optional<Graph> graph;               ///< in place of the model's, where nothing is INT8
  HeldOutError error;
  std::vector<RecipeCandidate> candidates;
  size_t layers = 0;     ///< integer weighted layers of the model as it came
  bool reached = false;  ///< the target holds
  bool pays = true;      ///< by the table no slower than the fused FP32 model
};

/// Whether a candidate of `time` (below 1) and `bytes` of another's is worth what it is larger: its
/// weights lie in f32.
bool EarnsItsBytes(double time, double bytes);

/// Every layer in INT8, where that keeps the target and is no slower than FP32. Else the fastest
/// candidate that keeps it and earns its bytes, of which "weights" is one that is as fast as FP32.
/// Where nothing keeps it, what errs least. `before`: of the model as it came, on all held-out
/// samples.
Result<LayerChoice> ChooseLayers(const StaticModel& model, const Graph& original,
                                 const HeldOut& held, const HeldOutError& before,
                                 const ChooseOptions& options);

}  // namespace infer
