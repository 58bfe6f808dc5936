#pragma once
/// Writes weights of few bits into the graph. Pure rewrite: what is rounded how is decided before.
///
/// nbits  MatMulNBits (codes [rows, blocks, block * bits / 8], lowest bits first; the padding of
///        the last block is the zero point) and GatherBlockQuantized (codes [rows, depth * bits /
///        8]); both read one constant where they share weights, the table through a Reshape.
/// qdq    DequantizeLinear of i4, u4, i8 or u8 codes. Products alone keep [depth, rows] with
///        axis 0, the form that ONNX Runtime turns into MatMulNBits; tables, and products that
///        share them, [rows, depth] with axis 1. 8-bit tables are looked up before they are
///        dequantized.
#include "lib/ir/editor.h"
#include "quant/weight_only/plan.h"

namespace infer {

struct WrittenWeights {
  int64_t bytes = 0;  ///< codes, scales and zero points
};

/// Replaces what the readers of a group read. `q` fits the group.
Result<WrittenWeights> WriteGroup(Graph& g, const WeightPlan& plan, const WeightGroup& group,
                                  const BlockQuantized& q, const WeightScheme& scheme,
                                  int accuracy_level);
/// The same for a kLayer group: one DequantizeLinear of i8 codes per channel, which
/// SpellAsCastAndMul rewrites in the finished graph.
Result<WrittenWeights> WriteLayerGroup(Graph& g, const WeightPlan& plan, const WeightGroup& group,
                                       const Tensor& codes, std::span<const float> scales);

/// In place of `gather`, a Gather along axis 0, the rows of `table` that it looks up, as f32, times
/// those of `factors` [rows, 1] (nullptr: 1): only what is looked up becomes f32.
Status LookUpRows(GraphEditor& editor, Node& gather, Value* table, Value* factors);

/// Rows of codes as bytes, the lowest bits first; each row padded with `fill` to `width` codes.
/// Pre: width * bits % 8 == 0.
Tensor PackRows(std::span<const uint8_t> codes, int64_t rows, int64_t depth, int64_t width,
                int bits, std::span<const uint8_t> fill, Dims dims);

}  // namespace infer
