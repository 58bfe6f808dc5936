#pragma once
/// Operators on codes (QLinearConv, QLinearMatMul, QGemm, QLinearConcat, QLinearWhere,
/// MatMulInteger and ConvInteger with constant parameters, MaxPool of bytes) in the form that the
/// integer kernels take: DequantizeLinear -> operator -> QuantizeLinear.
#include "lib/ir/graph.h"

namespace infer {

/// Returns how many nodes are gone. Left as they are: nodes whose scales or zero points are
/// computed, and QLinearAdd and the like, which round in their own way (kernel_qlinear.cc). Where
/// an integer kernel takes the result, its bits are those of the operator (int8_product.h);
/// `level` 2: also products of two activations, which may be multiplied in f32, and of weights that
/// less their zero point do not fit 8 bits (in two halves; convolutions by groups in whole f32
/// numbers, exact below 2^24).
Result<int> TakeQOperators(Graph& g, int level);

}  // namespace infer
