#pragma once
/// Shared by the operators of signal processing: operands that are one number.
#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"

namespace infer {

/// InvalidModel unless each of these operands that is given has one element.
Status AreNumbers(OpRun& run, std::initializer_list<size_t> operands);
/// The one element of a scalar input as far as it is known.
Dim ScalarInput(const OpCall& call, size_t i);
/// Bins of a one-sided spectrum of `n` samples: n / 2 + 1.
Dim OneSided(const Dim& n);

}  // namespace infer
