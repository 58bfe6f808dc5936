#pragma once
/// The one list of operator families. A family is a file (or a few) in lib/ops that returns its
/// OpDefs; adding an operator is adding one entry to a family (docs/adding-an-operator.md).
#include "lib/ops/op_def.h"

namespace infer {

/// Every operator that we know. Cheap to call; keep the result for the life of the program.
OpRegistry AllOps();

}  // namespace infer
