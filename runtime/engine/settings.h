#pragma once
/// Settings of engines and models that mean nothing, or would have no effect.
#include "runtime/engine/engine.h"

namespace infer::engine {

/// InvalidArgument, one line.
Status Check(const EngineOptions& options);
/// The same of a model, whatever its program is.
Status Check(const std::string& model, const ModelOptions& options);

}  // namespace infer::engine
