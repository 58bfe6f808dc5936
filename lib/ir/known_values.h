#pragma once
/// Values that are known before the run although no constant: what small constants and static
/// shapes come to. Shapes hang on them (Shape -> Cast -> Min -> Slice).
#include "lib/ir/inference.h"

namespace infer {

/// The outputs of `call` where all its inputs are known and small: by its reference kernel or body.
/// Sets the types and elements of the call's outputs accordingly. Empty where nothing is known:
/// random and costly operators, large results, and whatever fails, which the run will report.
/// Pre: the call is inferred.
KnownOutputs EvaluateKnown(OpCall& call, const OpRegistry& ops);

}  // namespace infer
