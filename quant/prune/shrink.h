#pragma once
/// Removes indices along axes of a graph's values for good: constants, attributes and constant
/// shapes shrink, and everything between them follows.
#include "quant/prune/groups.h"

namespace infer {

/// `cuts` are closed, as those of a group are. Types are inferred anew. Unsupported: an operator
/// cannot be written with these axes, or does not follow (it mixes an axis, or repeats an extent in
/// a constant); the message names it. InvalidArgument: an index or an axis that is not there, or an
/// axis that would lose all its indices.
Result<Graph> Shrink(const Graph& g, const AxisCuts& cuts);

}  // namespace infer
