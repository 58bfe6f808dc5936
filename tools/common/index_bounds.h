#pragma once
/// Extents that follow from indices: a Gather by Range(0, past + new) reads an axis that is at
/// least that long, and in models of exporters nearly always just that.
#include "lib/ir/graph.h"

namespace infer {

/// States (lib/tensor/equations.h) for each Gather of the main graph that the extent it reads along
/// is one more than its largest index, where both are symbolic. Of an index into flattened axes,
/// row * columns + column, as TorchScript writes x[row, column]: that the rows are as many as the
/// extent of the first axis, and the columns of the second. Pre: the graph is inferred.
void StateIndexBounds(const Graph& g);

}  // namespace infer
