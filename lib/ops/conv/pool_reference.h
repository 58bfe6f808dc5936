#pragma once
/// Reference kernels of pooling over any number of spatial axes; means and norms are summed in
/// double. The global forms take the whole plane as their one window.
#include "lib/ops/op_def.h"

namespace infer {

/// Padding never wins. The first of equal maxima gives the index.
Status RunMaxPool(OpRun& run);
Status RunGlobalMaxPool(OpRun& run);
Status RunAveragePool(OpRun& run);
Status RunGlobalAveragePool(OpRun& run);
/// (sum |x|^p)^(1/p)
Status RunLpPool(OpRun& run);
Status RunGlobalLpPool(OpRun& run);

}  // namespace infer
