#pragma once
/// What ONNX Runtime does on CPUs with the nodes of a file: element types that the standard allows
/// an operator and that it has no kernel for, so that it refuses the file, and what it fuses first.
#include "lib/ir/graph.h"

namespace infer {

/// ONNX Runtime 1.`minor` has no kernel of `n` for the element types of its operands or results.
/// Operators that it lacks whatever the types are not meant, nor bf16, which few have.
bool OrtLacksTypes(const Node& n, int minor);
/// None up to the newest has one.
bool EveryOrtLacksTypes(const Node& n);

/// The Add behind a product without a bias with which ONNX Runtime 1.`minor` makes a Gemm before it
/// looks for codes: of a constant number per column, also out of a DequantizeLinear, where the
/// product is of two axes or, since 1.21, of known extents (ADR 85). nullptr: there is none.
const Node* AddOfOrtGemm(const Node& product, int minor);

}  // namespace infer
