#pragma once
/// Quantized networks as other tools write them, in the one form that the integer kernels look for:
/// DequantizeLinear -> operator [-> activation] -> QuantizeLinear, with parameters and weights that
/// are constants. Every result keeps its bits, but for a bias that becomes part of a product.
///
/// Seen so far: Identity and casts to the type that is there between constants, codes and operators
/// (Polygraphy, TensorFlow, AIMET); weights in f32 behind QuantizeLinear (PyTorch, NNCF); scales
/// and zero points that are cast or reshaped first (PyTorch); Clip of codes to fewer bits (PyTorch,
/// Brevitas); a QuantizeLinear for each reader of a tensor (OpenVINO, PyTorch); weights transposed
/// behind DequantizeLinear (PyTorch); a bias in an Add of its own (TensorFlow, PyTorch); a Concat
/// whose operands and result have parameters of their own (ONNX Runtime).
#include "lib/ir/graph.h"

namespace infer {

/// Drops what hands its operand on as it is, and computes what only depends on constants and ends
/// in codes or their parameters. Returns how many nodes are gone.
Result<int> ReadQuantConstants(Graph& g);

/// Brings codes to the operators that read them dequantized. Run it behind the two that make
/// QuantizeLinear and constants: ReadQuantConstants and TakeQOperators. Returns how many nodes were
/// replaced.
Result<int> UnifyQuantSpellings(Graph& g);

}  // namespace infer
