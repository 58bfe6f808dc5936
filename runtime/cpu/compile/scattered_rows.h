#pragma once
/// Updates of whole rows that are spelled as one index per element.
#include "lib/ir/editor.h"

namespace infer {

/// ScatterElements along the first axis whose indices are an Expand of one number per row, and
/// whose updates are whole rows of the data, becomes ScatterND of those numbers, whose results are
/// the same: PyTorch exports the sums of a graph network so (index_add, scatter_add,
/// scatter_reduce). Files keep the spelling that they have: ONNX Runtime 1.30 loses updates of
/// ScatterND on several threads. Returns how many are replaced.
Result<int> ScatterRows(Graph& g);

}  // namespace infer
