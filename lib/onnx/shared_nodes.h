#pragma once
/// Nodes that several decomposed operators of one graph have in common: a mask as numbers, the
/// angles of a rotation with an axis for heads. Written once.
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/onnx/graph_writer.h"

namespace infer::onnx_io {

class SharedNodes {
 public:
  explicit SharedNodes(const OpRegistry& ops) : ops_(ops) {}

  /// Of the nodes from `first` on, which define one operator, removes those that compute what nodes
  /// handed here before compute; the others then read what these made. Nodes that make one of
  /// `results` stay. `constants` are those of the nodes; which nobody reads any more are removed.
  /// Nodes with subgraphs: nothing is shared.
  void Share(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int first,
             const std::vector<std::string>& results, std::vector<PendingTensor>& constants);

 private:
  const OpRegistry& ops_;
  std::unordered_map<std::string, std::vector<std::string>> made_;  // by what a node computes
};

}  // namespace infer::onnx_io
