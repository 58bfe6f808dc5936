#pragma once
/// What types alone cannot say where a rank is not known: whether the replacement broadcasts as the
/// match did.
#include "passes/rewrite/patch.h"

namespace infer {

/// InvalidModel when, with operands of some rank in place of those of unknown rank, the patch would
/// make results of other shapes than the match. Ok (and free) where every rank is known.
Status CheckUnknownRanks(const Match& m, const Patch& p);

}  // namespace infer
