#pragma once
/// Whether the reader of most files runs what takes the place of a match.
#include "passes/rewrite/patch.h"

namespace infer {

/// InvalidModel when the patch has a node for whose element types ONNX Runtime has no kernel,
/// though it has one for every node of the match.
Status CheckKernels(const Match& m, const Patch& p);

}  // namespace infer
