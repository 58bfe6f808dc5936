#pragma once
/// GraphEditor: the only writer of a Graph. Every method keeps the structural invariants of
/// ir/verify.h, and infers the types of what it adds.
#include <functional>

#include "lib/ir/graph.h"

namespace infer {

/// What AddNode may be told beside operator, operands and attributes.
struct NodeOptions {
  std::string name = {};
  /// How many outputs; 0: as many as the schema requires.
  size_t num_outputs = 0;
  /// Wanted names; "" = omitted optional output. Sets the number of outputs when not empty. With
  /// fewer names than num_outputs the rest get fresh names.
  std::vector<std::string> output_names = {};
  std::vector<std::pair<std::string, std::unique_ptr<Graph>>> subgraphs = {};
  size_t num_captures = 0;  ///< how many of the operands, at the end, are captures
  std::vector<std::string> fused_from = {};
  std::string extra = {};
};

class GraphEditor {
 public:
  explicit GraphEditor(Graph& g) : g_(g), at_(g.nodes_.end()) {}

  /// Where new nodes go (default: at the end).
  void InsertBefore(const Node& node) { at_ = node.self_; }
  void InsertAfter(const Node& node) { at_ = std::next(node.self_); }
  void InsertAtEnd() { at_ = g_.nodes_.end(); }
  /// Puts `node` behind `other`. Pre: it reads nothing and is read by nothing between the two.
  void MoveAfter(Node& node, const Node& other);

  /// A taken name gets a suffix. All return values owned by the graph.
  Value* AddInput(std::string_view name, ValueType type);
  Value* AddConstant(Tensor t, std::string_view name = "");
  /// InvalidModel when the call is ill-typed; then the graph is unchanged.
  Result<Node*> AddNode(const OpDef& def, std::vector<Value*> inputs, AttrMap attrs = {},
                        NodeOptions options = {});
  /// As above for one output by operator name. Internal when the operator does not exist.
  Result<Value*> Add(std::string_view op, std::vector<Value*> inputs, AttrMap attrs = {},
                     std::string_view domain = "", NodeOptions options = {});
  void MarkOutput(Value* v);
  /// Replaces graph output i. The interface keeps its name (an Identity is added where needed).
  Status SetOutput(size_t i, Value* v);
  /// Removes an input that nothing uses.
  void EraseInput(size_t i);

  /// Every reader of `from`, and the graph's outputs, read `to` instead. InvalidArgument when the
  /// type of `to` does not refine that of `from`. Outputs keep their names: `to` takes the name,
  /// or, where it has one to keep, an Identity does.
  Status ReplaceAllUses(Value* from, Value* to);
  void SetOperand(Node& node, size_t i, Value* v);
  void SetAttr(Node& node, std::string name, AttrValue value) {
    node.attrs_[std::move(name)] = std::move(value);
    node.prepared_.store(nullptr);
  }
  void EraseAttr(Node& node, const std::string& name) {
    node.attrs_.erase(name);
    node.prepared_.store(nullptr);
  }
  void SetFusedFrom(Node& node, std::vector<std::string> names) {
    node.fused_from_ = std::move(names);
  }
  void SetName(Node& node, std::string name) { node.name_ = std::move(name); }
  void SetGraphName(std::string name) { g_.name_ = std::move(name); }
  void SetGraphExtra(std::string extra) { g_.extra_ = std::move(extra); }
  void Rename(Value* v, std::string name);  ///< Pre: the name is free
  /// Overwrites what is known of a value. For importers and inference.
  void SetType(Value* v, ValueType type) { v->type_ = std::move(type); }
  void SetElements(Value* v, std::optional<std::vector<Dim>> e) { v->elements_ = std::move(e); }
  void SetKnown(Value* v, std::optional<Tensor> t) { v->known_ = std::move(t); }  ///< no constant
  /// Gives `v` what is known of the elements of `from`, a value of the same meaning.
  void CopyElements(Value* v, const Value& from) {
    v->elements_ = from.elements_;
    if (!v->is_constant()) v->known_ = from.known() ? std::optional(*from.known()) : std::nullopt;
  }
  /// Makes a graph input or a produced value a constant (its producer loses that output's readers).
  void SetConstant(Value* v, Tensor t);
  Graph* mutable_subgraph(Node& node, size_t i) { return node.subgraphs_[i].second.get(); }
  /// Erases a node none of whose outputs is read. Its dead constant operands go with it.
  void Erase(Node& node);
  /// Erases nodes and constants that nothing reads; returns how many nodes. Linear.
  int Sweep();
  /// Fresh value name with this beginning.
  std::string FreshName(std::string_view hint);
  /// Re-infers the types of `node`'s outputs from its operands (subgraphs too) and stores them.
  Status Reinfer(Node& node);

 private:
  Value* NewValue(std::string_view name, ValueType type);
  void EraseValue(Value* v);
  void AddUse(Node& node, size_t operand);
  void DropUse(Node& node, size_t operand);
  void Order(Node& node);
  Graph& g_;
  std::list<std::unique_ptr<Node>>::iterator at_;
};

}  // namespace infer
