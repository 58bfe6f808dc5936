#pragma once
/// Element types that the standard allows an operator and that ONNX Runtime has no kernel for on
/// CPUs: a file with such a node is one that it refuses.
#include "lib/ir/graph.h"

namespace infer {

/// ONNX Runtime 1.`minor` has no kernel of `n` for the element types of its operands or results.
/// Operators that it lacks whatever the types are not meant, nor bf16, which few have.
bool OrtLacksTypes(const Node& n, int minor);
/// None up to the newest has one.
bool EveryOrtLacksTypes(const Node& n);

}  // namespace infer
