#pragma once
/// Roles of a node that passes, quantization and backends ask for: one answer each, from what the
/// operator states (traits, weight layout, bounds).
#include <optional>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

// ---- layers: input 0 times weights, input 1 (WeightLayoutOf) ------------------------------------

/// Sums over windows of input 0: Conv.
bool IsConvolution(const Node& n);
/// Each element of input 0 is spread over a window of the result: ConvTranspose.
bool IsTransposedConvolution(const Node& n);
/// A product of matrices or of stacks of them: MatMul, Gemm.
bool IsMatrixProduct(const Node& n);
/// One of these that adds input 2, where it is there: all but MatMul.
bool TakesBias(const Node& n);
/// The matrices of a product are taken as they are, with factor 1: always so of MatMul.
bool IsPlainProduct(const Node& n);

// ---- element-wise -------------------------------------------------------------------------------

/// Constant bounds that the node holds input 0 within; nullopt for other nodes.
std::optional<Clamp> ClampOf(const Node& n);
/// The node is max(input 0, 0).
bool IsRelu(const Node& n);
/// What `n` adds to `v`, multiplies `v` by; nullptr where it does not, or the other operand is `v`.
Value* AddedTo(const Value* v, const Node& n);
Value* MultipliedBy(const Value* v, const Node& n);

// ---- moves --------------------------------------------------------------------------------------

/// Result 0 is input 0 as it is: type, extents and elements.
bool IsIdentity(const Node& n);
/// The order in which a node of kPermutation takes the axes of input 0, default resolved by `rank`,
/// or, where that is negative, by the operand's; empty where the rank is not known.
std::vector<int64_t> PermOf(const Node& permutation, int rank = -1);
/// The axes of a matrix are exchanged. Pre: the operand is a matrix.
bool TurnsMatrix(const Node& n);
/// The extents of all axes of input 0: Shape without a part of them picked.
bool IsWholeShape(const Node& n);
/// Elements of the result are computed between those of input 0, or are none of it: sampling that
/// is not of the nearest, or reads outside.
bool Interpolates(const Node& n);
/// The elements of input 0, number for number, as another type: Cast, CastLike.
inline bool IsCast(const Node& n) {
  return n.Is(Trait::kConversion) && !n.Is(Trait::kQuantization);
}

// ---- codes and the numbers that they stand for --------------------------------------------------

/// Numbers become codes or codes numbers, by scale input 1 and zero point input 2.
inline bool IsQuantizeOrDequantize(const Node& n) {
  return n.IsAny(Trait::kQuantize | Trait::kDequantize);
}
/// The scale that numbers are divided by on their way to the codes of result 0: of kQuantize, and
/// the result's own one of operators on quantized tensors (QLinearConv and others); nullptr: none.
const Value* ScaleOfResult(const Node& n);
/// The side of the codes, the side of the numbers. Pre: IsQuantizeOrDequantize.
Value* CodesSide(const Node& n);
Value* NumbersSide(const Node& n);
/// Scale and, where there is one, zero point are constant. Pre: IsQuantizeOrDequantize.
bool HasConstantParams(const Node& n);
/// The node of kDequantize that makes `v`, that of kQuantize; nullptr: another one does, or none.
Node* DequantizeBefore(const Value* v);
Node* QuantizeBefore(const Value* v);
/// The node of kQuantize that alone reads `v`, as input 0; nullptr else.
Node* QuantizeBehind(const Value* v);
/// The node of kQuantize that rounds `v`, also behind bounds (ClampOf), where each alone reads what
/// is before it; nullptr else.
Node* QuantizeBehindBounds(const Value* v);
/// A layer takes it as weights: input 1 of a contraction, inputs 1 and 2 of a recurrent layer.
bool ReadsAsWeights(const Use& use);
/// Weights that are stored in 8 bits and computed with as floats: Cast of constant codes -> Mul by
/// constant scales -> weights of layers. True of both nodes, where nothing else reads their
/// results.
bool MakesStoredWeights(const Node& n);

}  // namespace infer
