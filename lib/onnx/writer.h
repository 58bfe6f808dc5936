#pragma once
/// One graph, body or function -> its nodes, names and constants. Internal to graph_writer.
#include <algorithm>
#include <optional>
#include <set>

#include "lib/onnx/flat_softmax.h"
#include "lib/onnx/graph_writer.h"
#include "lib/onnx/shared_constants.h"
#include "lib/onnx/shared_nodes.h"

namespace infer::onnx_io {

/// Names that are taken; of each, the number that the next one like it gets.
using Names = std::unordered_map<std::string, int64_t>;

/// What all graphs of a file share.
struct WriteState {
  const OpRegistry& ops;
  const Opsets& imported;
  WriteOptions options;
  WrittenModel out = {};
  Names used = {};  // of values, over all graphs
  SharedConstants shared = {};
  std::set<std::string> functions = {};

  void UseDomain(const std::string& domain, int64_t needed) {
    if (domain.empty()) return;
    int64_t& version = out.opsets[domain];
    auto it = imported.find(domain);
    version = std::max({version, needed, it == imported.end() ? 1 : it->second});
  }
};

class Writer : public LiftContext {
 public:
  enum class Place : uint8_t { kMain, kInner, kFunction };

  /// `nodes` is where nodes go: a graph's or a function's.
  Writer(WriteState& state, const Graph& g, Place place,
         google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes)
      : state_(state), graph_(g), place_(place), nodes_(nodes), shared_nodes_(state.ops) {}

  /// `captures`: the outer names of the last inputs.
  Status Run(const std::vector<std::string>& captures);

  const std::string& NameOf(const Value* v) const { return names_.at(v); }
  /// Puts what import kept unread into `out`, which this wrote; `tensors` are its initializers.
  Status RestoreKept(std::vector<PendingTensor>& tensors, onnx::GraphProto& out);
  const std::vector<std::string>& output_names() const { return output_names_; }
  /// Constants that something reads, in the order of the graph.
  std::vector<PendingTensor>& constants() { return constants_; }

  // LiftContext.
  void Emit(NodeSpec node) override { Append(node, ""); }
  std::string Constant(Tensor t) override;
  std::string Fresh(std::string_view hint) override;
  const Tensor* ConstantValue(const std::string& name) override;
  const ValueType* Type(const std::string& name) override;

 private:
  // Names and what stands around the nodes: writer.cc.
  const Value* Find(const std::string& name) const;
  void SetName(const Value* v, std::string name);
  void NameValues(const std::vector<std::string>& captures);
  NodeSpec SpecOf(const Node& n) const;
  onnx::NodeProto* Append(const NodeSpec& spec, const std::string& extra);
  /// A subgraph or function makes its outputs itself, each of its own name; so an Identity stands
  /// for a captured value or a second mention.
  void NameOutputs();
  void CollectConstants();

  /// The old Softmax whose parts end with the Reshape `back`.
  void WriteFlat(const Node& back, const FlatSoftmax& f);

  // The form in which a node leaves: writer_forms.cc.
  Status WriteNode(const Node& n);
  /// Another form for ONNX Runtime, where the file is for it and that is better, or where it takes
  /// no other.
  std::optional<NodeSpec> OrtFormOf(const Node& n, const NodeSpec& spec);
  /// Whether an older form of `spec` may stand in a file of our opset.
  bool IsLowered(const OpDef& def, const NodeSpec& spec);
  /// The lowest opset above ours that can say `spec`, which is in the form of `newest`.
  int64_t LowestOf(const OpDef& def, const NodeSpec& spec, int64_t newest);
  /// The nodes that define `n`; their own older forms are looked for as for any other node.
  Status WriteDecomposed(const Node& n, int64_t needed);
  /// One of our own operators as its nodes. ONNX Runtime would inline its function, too; written
  /// like this, the nodes inside have their types and may take another form.
  Status WriteBody(const Node& n);
  /// `body`, with the operands of `n` that are there as inputs, in place of `n`.
  Status WriteInPlace(const Node& n, const Graph& body);
  Status WriteSubgraph(const Node& n, const Graph& sub, onnx::GraphProto& out);
  Status AddFunction(const OpDef& def, const AttrMap& attrs, const std::string& name);
  void Refuse(const Node& n, std::string why, int64_t needed);
  void NeedTypes(const Value& v);
  void NeedOperandTypes(const Node& n);

  WriteState& state_;
  const Graph& graph_;
  Place place_;
  std::string prefix_;  // of the names of inner values
  google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes_;
  SharedNodes shared_nodes_;  // of operators that are written as their nodes
  std::unordered_map<const Value*, std::string> names_;
  std::unordered_map<std::string, const Value*> by_name_;
  std::unordered_set<const Value*> elsewhere_;  // captured, or constants of the main graph
  std::unordered_set<std::string> read_;
  Names node_names_;
  std::vector<std::string> output_names_;
  std::vector<PendingTensor> constants_, extra_constants_;
  const Node* node_ = nullptr;
};

/// The function that stands for `def` with these attributes.
Status WriteFunction(WriteState& state, const OpDef& def, const AttrMap& attrs,
                     onnx::FunctionProto& out);

}  // namespace infer::onnx_io
