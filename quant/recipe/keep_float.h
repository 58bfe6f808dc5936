#pragma once
/// Which layers to leave in f32 so that the rest reaches a target: each layer alone is made integer
/// and its error at the outputs measured; the worst return to f32, as few as reach the target
/// (binary search over the ranking).
#include "quant/recipe/held_out.h"
#include "quant/scheme/quantize.h"

namespace infer {

struct KeepFloatOptions {
  double target_db = 26;        ///< SQNR of every output on the held-out samples
  int64_t ranking_samples = 4;  ///< held-out samples by which layers are ranked
  std::function<bool()> out_of_time = nullptr;
};
struct KeepFloatResult {
  std::map<std::string, std::string> keep;  ///< for QuantScheme::keep; what the scheme had included
  HeldOutError error;                       ///< with these kept
  size_t layers = 0;                        ///< integer weighted layers of the model as it came
  bool reached = false;
};
Result<KeepFloatResult> FindLayersToKeep(const StaticModel& model, const Graph& original,
                                         const HeldOut& held, const KeepFloatOptions& options);

}  // namespace infer
