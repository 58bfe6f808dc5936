#pragma once
/// Kinds of ONNX Runtime's kernels and the work that a node is for them. Internal to quant/target.
#include <string_view>

#include "lib/ir/graph.h"

namespace infer::target {

/// 0 where an extent is unknown.
double ElementsOf(const Value* v);
int64_t ExtentOf(const Value* v, size_t axis);
size_t RankOf(const Value* v);
/// Elements of all operands and results.
double Touched(const Node& n);
/// Elements that the windows of a pool read.
double WindowsOf(const Node& n);
double GroupsOf(const Node& n);
/// Of a DequantizeLinear: runs of elements that lie together and have one scale.
double ScaledPartsOf(const Node& dequantize);
/// Windows of one element.
bool IsPointwise(const Value* weights);
/// A product of two axes is a Gemm, which adds any result of the same extents.
bool IsAddedByGemm(const Value& product, const Value& other);
/// A Transpose that changes the last two axes alone.
bool SwapsLastAxes(const Node& n);
/// A product whose result is one row: its weights are read once, whatever it computes.
bool IsOfOneRow(const Node& product);
/// Each channel has a window of its own, and one result.
bool IsDepthwise(const Node& convolution);
/// Pools and joins take blocks of channels where each operand has no other.
bool HasWholeBlocks(const Node& n);
/// Elements of the columns that a convolution's windows are copied to, and the copies: each of the
/// channels that a group has at a position. None of windows of one element, or of depthwise ones.
struct ColumnWork {
  double elements = 0, copies = 0;
};
ColumnWork ColumnsOf(const Node& convolution);
/// The work of a convolution in f32, in whole blocks of channels, over that of the channels that
/// there are.
double FilledBlocks(const Node& convolution, std::string_view family);
/// The work of an integer convolution, over that of whole vectors of its results.
double FilledColumns(const Node& convolution);
/// The scores of an attention (queries by keys, for each head), and the operations of their
/// softmax.
struct ScoresWork {
  double elements = 0, operations = 0;
};
ScoresWork ScoresOf(const Node& attention);
/// Of sums, softmaxes and normalizations along an axis: what each costs beside its elements.
double RowOperationsOf(const Node& n);

// ---- families (OrtFamilies)
// -----------------------------------------------------------------------

std::string_view FloatConvFamily(const Node& n);
std::string_view FloatFamily(const Node& n);
std::string_view IntegerConvFamily(const Node& n);
std::string_view IntegerFamily(const Node& n);
bool IsPool(std::string_view family);

}  // namespace infer::target
