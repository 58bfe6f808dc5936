#pragma once
/// What a GraphProto says that we keep without reading it: doc strings and metadata of the graph
/// and of its values and initializers, quantization annotations, fields newer than our proto
/// classes. Internal to lib/onnx.
///
/// All of it stands in Graph::extra, as one serialised GraphProto, under the names of values: a
/// value that takes the place of another takes over its name and stands for the same thing, so
/// rewriting need not know of it. What no value is called any more is left out on export.
#include <functional>

#include "lib/onnx/graph_writer.h"
#include "lib/onnx/tensor_proto.h"

namespace infer::onnx_io {

/// The kept fields of `g`, serialised; "" where there are none. `constants`: its Constant nodes.
std::string KeptFields(const onnx::GraphProto& g,
                       const std::vector<const onnx::NodeProto*>& constants,
                       const TensorReader& tensors);
/// The same of a node: doc string, metadata, newer fields.
std::string KeptFields(const onnx::NodeProto& node);

/// Where the kept fields of a graph go.
struct KeptTarget {
  onnx::GraphProto& graph;  ///< as written, without initializers
  /// The name under which a value was written; nullptr: not in this graph.
  std::function<const std::string*(const Value&)> name_of;
  /// The initializer of that name; nullptr: there is none.
  std::function<PendingTensor*(const std::string&)> initializer;
  /// A free name that begins so.
  std::function<std::string(const std::string&)> fresh;
};

/// Puts back what KeptFields took. InvalidModel when Graph::extra does not parse.
Status RestoreKeptFields(const Graph& g, const KeptTarget& target);

}  // namespace infer::onnx_io
