#pragma once
/// Layers that take the same time, so that one of them is timed for all.
#include "quant/search/mixed_model.h"

namespace infer {

/// For each layer the first one like it: the same operator, attributes, and types of operands and
/// result; what makes its operand and what reads its result, two steps far, are the same operators,
/// so that the same kernels fuse. Repeated blocks of a network share their layers' times.
std::vector<size_t> TimeClasses(const MixedModel& model);

}  // namespace infer
