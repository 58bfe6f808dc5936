#pragma once
/// Predicted times of other settings, for the engine's recommendations.
#include "runtime/engine/predicted.h"
#include "tools/infer_bench/load/setup.h"

namespace infer::bench {

/// Where --machine asks, the engine of `target`, which serves the model at `path`, is told what is
/// predicted for more rows of a run, other threads, and the precisions and variants that are asked
/// for. A model that cannot be predicted is a warning.
Status PredictFor(Context& context, const std::string& path, const LoadSetup& setup,
                  LoadTarget& target);

}  // namespace infer::bench
