#pragma once
/// The values of a graph in a run on a backend: for checks of rewrites, which would take
/// minutes on reference kernels.
#include "passes/rewrite/verify_match.h"
#include "runtime/api/program.h"

namespace infer {

/// Runs each node by itself (level 0). Graphs of so little work that compiling would take longer
/// run on reference kernels. The backend is shared with the result.
RunValues ValuesOn(std::shared_ptr<const Backend> backend, int threads, std::stop_token stop);

}  // namespace infer
