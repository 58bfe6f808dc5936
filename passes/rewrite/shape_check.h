#pragma once
/// What types alone cannot say where shapes are not known: whether the replacement broadcasts as
/// the match did.
#include "passes/rewrite/patch.h"

namespace infer {

/// InvalidModel when the patch would make results of other shapes than the match, with operands of
/// some rank in place of those of unknown rank, and extents that are none of those known in place
/// of unknown ones. Ok (and free) where the results' shapes are known.
Status CheckUnknownShapes(const Match& m, const Patch& p);

}  // namespace infer
