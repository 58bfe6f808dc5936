#pragma once
/// Whether fine-tuning could begin: asked before anything is pruned or rounded for it.
#include "quant/train/fine_tune.h"

namespace infer {

/// Too few samples, or options out of range: InvalidArgument.
Status CheckRequest(const Samples& samples, const FineTuneOptions& options);

/// Also the samples' extents, and the gradients of a model whose pruned or rounded form will be
/// trained. Reads every sample once and runs nothing.
/// InvalidArgument and Unsupported as FineTune; the message names an operator without a gradient.
Status CheckFineTune(const Graph& model, const Samples& samples, const FineTuneOptions& options);

}  // namespace infer
