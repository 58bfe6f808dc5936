#pragma once
/// Stores the constant weights of one layer that computes in f32 in fewer bits: a
/// DequantizeLinear in front of the node, as standard ONNX writes it.
///
/// int8: one scale per output channel (opset 13); of a table, and of one in f16, the rows that are
/// looked up become f32, no others. int4: symmetric blocks along the depth that the
/// layer sums over (opset 21); convolution weights with their axes behind the first as one, behind
/// the DequantizeLinear reshaped to what they were. nbits: MatMulNBits in place of the node;
/// kernels may round its activations to 8 bits (accuracy level 4). f16: a Cast.
#include <map>
#include <optional>
#include <utility>

#include "lib/ir/editor.h"
#include "quant/search/policy.h"
#include "quant/weight_only/block.h"

namespace infer {

/// The operand of `node` that holds weights which can be stored in fewer bits: of Conv,
/// ConvTranspose, Gemm, MatMul with constant f32 weights, and of a Gather along axis 0 of a
/// constant f32 table. nullopt: none.
std::optional<size_t> StoredWeights(const Node& node);
/// The weights are a table whose rows are looked up: operand 0, no factor of a sum.
inline bool IsTable(const Node& node) { return node.Is(Trait::kSliceLookup); }

/// The weights of `node` as rows of outputs.
class RowsOf {
 public:
  RowsOf(const Node& node, size_t operand);
  BlockWeights view() const { return view_; }
  /// The matrix is stored with outputs last.
  bool by_columns() const { return by_columns_; }

 private:
  bool by_columns_;
  std::vector<float> turned_;
  BlockWeights view_;
};
/// Pre: IsBlocks(p).
BlockGrid GridOf(Precision p, int64_t depth);

/// One writer per graph: layers that share weights share what is written.
class WeightWriter {
 public:
  explicit WeightWriter(Graph& g) : g_(g), editor_(g) {}
  /// Returns the bytes that the weights take now. Pre: StoredWeights(node); weights are finite;
  /// `p` is one of the weight-only precisions. `rounded`: what the weights were rounded to in
  /// GridOf(p), of precisions in blocks. MatMulNBits stands in place of `node`, which goes.
  Result<int64_t> Write(Node& node, Precision p, const BlockQuantized* rounded);

 private:
  struct Written {
    Value* weights = nullptr;
    Value* factors = nullptr;  ///< of a table's codes
    int64_t bytes = 0;
  };
  Result<Written> WriteInt8(const Node& node, size_t operand);
  Result<Written> WriteF16(const Node& node, size_t operand);
  /// A table's numbers as they are stored.
  Written StoreTable(const Node& node, Precision p);
  Result<Written> WriteInt4(const Node& node, size_t operand, const BlockQuantized& q);
  Result<int64_t> WriteNBits(Node& node, size_t operand, const BlockQuantized& q);

  Graph& g_;
  GraphEditor editor_;
  /// By constant, precision and the axis of the channels.
  std::map<std::tuple<const Value*, Precision, int>, Written> written_;
};

}  // namespace infer
