#pragma once
/// Sparsity of a model's weights, whoever pruned it. Reads the graph, changes nothing.
#include "quant/prune/layers.h"

namespace infer {

struct LayerSparsity {
  std::string name, op, weights;
  WeightPlane plane;
  bool quantized = false;  ///< the weights are codes: their zeros are the zero points
  int64_t count = 0, zeros = 0;
  int64_t zero_rows = 0;  ///< rows (outputs) without any weight
  /// The strongest N:M that holds (least n / m, then least m) with n at most 3/4 of m, which chance
  /// does not make; m 0: none.
  int64_t n = 0, m = 0;
  /// The largest block, of those that are looked for, that at least 99 % of the zeros come in; 0:
  /// none.
  int64_t block_rows = 0, block_columns = 0;
};

/// Layers with constant weights, each constant once, in topological order: as they are, behind
/// DequantizeLinear, behind nodes that move them, or as codes that the operator itself multiplies
/// by (PackedWeightsOf). Nodes of subgraphs are not among them.
std::vector<LayerSparsity> DescribeSparsity(const Graph& g);

/// Of weights [all_rows, depth]: all but the names.
LayerSparsity SparsityOf(const WeightPlane& plane, std::span<const float> weights);

}  // namespace infer
