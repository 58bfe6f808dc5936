#pragma once
/// Classifiers whose labels are text.
#include "lib/ir/editor.h"

namespace infer {

/// A classifier of ai.onnx.ml with labels of text gives the numbers of its classes, and a Gather
/// the labels: kernels make numbers alone. Returns how many there were.
Result<int> TakeTextLabels(Graph& g);

}  // namespace infer
