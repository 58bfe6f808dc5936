#pragma once
/// Weights of 8 bits spelled as Cast and Mul.
#include "lib/ir/graph.h"

namespace infer {

/// DequantizeLinear of i8 codes that only layers computed in f32 read, as their weights, becomes
/// Cast -> Mul by the scales; the same numbers bit for bit. Every runtime folds that when it loads
/// the file, while ONNX Runtime (1.30) keeps DequantizeLinear for its integer kernels and runs it
/// each time: a small MobileNet took 3.6 times FP32's time so, and takes 1.05. Left as it is: what
/// a layer reads whose data come from codes, through views, moves and pools too, since kernels
/// compute such a layer in integers; scales in blocks; zero points other than 0; products of
/// matrices and their transposes unless `products`.
Status SpellAsCastAndMul(Graph& g, bool products);

}  // namespace infer
