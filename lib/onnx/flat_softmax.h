#pragma once
/// Softmax before opset 13 normalizes all axes from `axis` on together. Newer opsets, and so our
/// graphs, have no such operator: import makes a matrix, Softmax over its rows, and a Reshape back.
/// In files of an old opset this is one node again. No protobuf here.
#include <unordered_map>
#include <unordered_set>

#include "lib/ir/graph.h"

namespace infer::onnx_io {

struct FlatSoftmax {
  const Node* softmax = nullptr;  ///< Softmax, LogSoftmax or Hardmax
  const Value* x = nullptr;       ///< what it is of
  int64_t axis = 0;               ///< the first of x that is normalized, not negative
};

struct FlatSoftmaxes {
  std::unordered_map<const Node*, FlatSoftmax> last;  ///< by the Reshape back
  std::unordered_set<const Node*> inner;              ///< nodes that only such a Reshape needs
};
FlatSoftmaxes FindFlatSoftmaxes(const Graph& g);

}  // namespace infer::onnx_io
