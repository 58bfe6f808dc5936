#pragma once
/// Model-local functions: calls are replaced by the function's nodes, names made unique, attribute
/// references resolved (ONNX IR specification, "Model Local Functions"). Internal to lib/onnx.
#include <onnx/onnx_pb.h>

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "lib/onnx/import.h"

namespace infer::onnx_io {

using Opsets = std::map<std::string, int64_t>;

/// "" and "ai.onnx" are one domain.
std::string CanonicalDomain(const std::string& domain);
Opsets OpsetsOf(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports);

/// Nodes of the graph and of the bodies in it.
int64_t CountNodes(const onnx::GraphProto& g);

/// A node to import and the opsets that give its operator a meaning.
struct SourceNode {
  const onnx::NodeProto* node;
  const Opsets* opsets;
};

class FunctionTable {
 public:
  /// Which operator a call of a function is; "": none, so that it is expanded.
  using OperatorOf =
      std::function<std::string(const onnx::FunctionProto& function, const onnx::NodeProto& call)>;

  /// InvalidModel for two functions of one name, and when the model's graph, inlined, would be
  /// over a limit: this is counted, function by function, before anything is copied.
  static Result<FunctionTable> Of(const onnx::ModelProto& model, const ImportLimits& limits,
                                  OperatorOf operator_of);

  /// Appends `node`, or what its function says, to `out`. New nodes live as long as the table.
  Status Expand(const SourceNode& node, std::vector<SourceNode>& out) {
    return Expand(node, 0, out);
  }

 private:
  struct Function {
    const onnx::FunctionProto* proto;
    Opsets opsets;
    std::map<std::string, onnx::AttributeProto> defaults;  // FunctionProto.attribute_proto
  };
  using Key = std::tuple<std::string, std::string, std::string>;  // domain, name, overload
  /// What inlining makes, saturated.
  struct Size {
    int64_t nodes = 0;   // of all graphs; calls count as nodes
    int64_t bytes = 0;   // as serialised, with names as the function has them
    int64_t names = 0;   // places where the prefix of a call is put in front of a name
    int64_t height = 0;  // calls that nest
    void Add(const Size& s);
  };

  const Function* FunctionOf(const onnx::NodeProto& node) const;
  /// The size of `nodes`, which stand `depth` calls deep; `inner`: in a node whose bytes are
  /// counted. InvalidModel: calls nest too deep.
  Result<Size> SizeOf(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int depth,
                      bool inner = false);
  Result<Size> SizeOf(const Function& function, int depth);
  Status Expand(const SourceNode& node, int depth, std::vector<SourceNode>& out);
  Status ExpandCall(const Function& function, const onnx::NodeProto& call, int depth,
                    std::vector<SourceNode>& out);

  std::map<Key, Function> functions_;
  std::map<const Function*, Size> sizes_;
  std::deque<onnx::NodeProto> nodes_;
  ImportLimits limits_;
  OperatorOf operator_of_;
  int64_t calls_ = 0, nodes_left_ = 0, bytes_left_ = 0;
};

}  // namespace infer::onnx_io
