#pragma once
/// Graph: operators applied to values, in SSA form and topological order.
///
/// Ownership: the graph owns nodes and values; Node* and Value* are non-owning and stay valid until
/// that node or value is erased. Only GraphEditor (ir/editor.h) changes a graph, so use lists can
/// never disagree with operands.
///
/// Subgraphs (If, Loop, Scan) are closed: a value captured from outside is an explicit extra
/// operand of the node (after the operator's own inputs), and every subgraph of the node has one
/// input per capture, in the same order, after its own inputs. Export restores ONNX's scoping.
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/ops/op_def.h"

namespace infer {

class Graph;
class GraphEditor;
class Node;

/// One operand position that reads a value.
struct Use {
  Node* user;
  size_t operand;
};

class Value {
 public:
  const std::string& name() const { return name_; }
  const ValueType& type() const { return type_; }
  const TensorType& tensor_type() const { return type_.tensor(); }  ///< Pre: type().is_tensor()
  /// Of a tensor; of any other value the rank is unknown and the element type undefined.
  const Shape& shape() const { return type_.shape(); }
  DType dtype() const { return type_.dtype(); }
  Node* producer() const { return producer_; }  ///< nullptr for a graph input or a constant
  size_t producer_index() const { return producer_index_; }  ///< which output of producer()
  bool is_constant() const { return constant_.has_value(); }
  const Tensor* constant() const { return constant_ ? &*constant_ : nullptr; }
  /// Elements of a small integer tensor as far as inference knows them (OpCall::elements).
  const std::optional<std::vector<Dim>>& elements() const { return elements_; }
  /// The constant, or what inference computed from constants and shapes alone (small tensors).
  const Tensor* known() const { return known_ ? &*known_ : constant(); }
  const std::vector<Use>& uses() const { return uses_; }  ///< in no particular order
  bool is_input() const { return is_input_; }
  bool is_output() const { return output_count_ > 0; }
  /// Read once, and the graph does not return it. A value with this property disappears when its
  /// user is rewritten.
  bool has_one_use() const { return uses_.size() == 1 && output_count_ == 0; }
  bool is_dead() const { return uses_.empty() && output_count_ == 0; }

 private:
  friend class GraphEditor;
  friend class Graph;
  std::string name_;
  ValueType type_;
  Node* producer_ = nullptr;
  size_t producer_index_ = 0;
  std::optional<Tensor> constant_;
  std::optional<std::vector<Dim>> elements_;
  std::optional<Tensor> known_;  // never beside constant_
  std::vector<Use> uses_;
  bool is_input_ = false;
  int output_count_ = 0;  // how many graph outputs are this value
  std::list<std::unique_ptr<Value>>::iterator self_;
};

/// `v` is there and is a tensor of f32.
inline bool IsF32(const Value* v) { return v && v->dtype() == DType::kF32; }

class Node {
 public:
  const OpDef& def() const { return *def_; }
  std::string_view op() const { return def_->name; }
  bool Is(Trait t) const { return def().traits.Has(t); }
  bool IsAny(Traits traits) const { return def().traits.HasAny(traits); }  ///< one of them
  bool Is(std::string_view op, std::string_view domain = "") const {
    return def_->name == op && def_->domain == domain;
  }
  const std::string& name() const { return name_; }  ///< not unique, may be empty
  /// Names of the nodes of the original model that this one stands for; {name()} for an original.
  const std::vector<std::string>& fused_from() const { return fused_from_; }
  const AttrMap& attrs() const { return attrs_; }
  /// Operands, nullptr = omitted optional input; the last num_captures() are captures.
  const std::vector<Value*>& inputs() const { return inputs_; }
  const std::vector<Value*>& outputs() const { return outputs_; }  ///< nullptr = omitted
  Value* input(size_t i) const { return i < inputs_.size() ? inputs_[i] : nullptr; }
  Value* output(size_t i = 0) const { return i < outputs_.size() ? outputs_[i] : nullptr; }
  size_t num_captures() const { return num_captures_; }
  /// Attribute name -> closed graph, in the schema's order.
  const std::vector<std::pair<std::string, std::unique_ptr<Graph>>>& subgraphs() const {
    return subgraphs_;
  }
  const Graph* subgraph(std::string_view attr) const;
  /// Opaque protobuf bytes of fields that we keep but do not read (metadata, doc).
  const std::string& extra() const { return extra_; }
  PreparedSlot& prepared() const { return prepared_; }  ///< for calls of this node
  /// Attribute or default, as OpCall::Attr.
  template <typename T>
  const T& Attr(std::string_view name) const {
    return OpCall(*def_, attrs_, 0, 0).Attr<T>(name);
  }
  /// Attribute or default; `none` where the operator has no such attribute, or it is neither given
  /// nor has a default.
  template <typename T>
  T AttrOr(std::string_view name, T none) const {
    const AttrDef* a = def_->FindAttr(name);
    const bool there =
        a && (attrs_.find(name) != attrs_.end() || std::holds_alternative<T>(a->default_value));
    return there ? Attr<T>(name) : none;
  }

 private:
  friend class GraphEditor;
  friend class Graph;
  const OpDef* def_ = nullptr;
  std::string name_;
  std::vector<std::string> fused_from_;
  AttrMap attrs_;
  std::vector<Value*> inputs_, outputs_;
  std::vector<size_t> use_slots_;  // position of operand i in inputs_[i]->uses_
  size_t num_captures_ = 0;
  std::vector<std::pair<std::string, std::unique_ptr<Graph>>> subgraphs_;
  std::string extra_;
  mutable PreparedSlot prepared_;  // what the attributes say
  int64_t order_ = 0;              // increases along the topological order
  std::list<std::unique_ptr<Node>>::iterator self_;
};

class Graph {
 public:
  explicit Graph(const OpRegistry& ops, std::string name = "")
      : name_(std::move(name)), ops_(&ops) {}
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  /// A deep copy; tensors share their buffers.
  Graph Clone() const;

  const std::string& name() const { return name_; }
  /// As Node::extra, of the graph and, by name, of its values.
  const std::string& extra() const { return extra_; }
  const OpRegistry& ops() const { return *ops_; }
  const std::vector<Value*>& inputs() const { return inputs_; }
  const std::vector<Value*>& outputs() const { return outputs_; }
  /// In topological order.
  const std::list<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  const std::list<std::unique_ptr<Value>>& values() const { return values_; }
  size_t num_nodes() const { return nodes_.size(); }
  /// Nodes of this graph and of all subgraphs.
  size_t total_nodes() const;
  Value* FindValue(std::string_view name) const;
  /// `a` stands before `b` in topological order.
  static bool Before(const Node& a, const Node& b) { return a.order_ < b.order_; }

 private:
  friend class GraphEditor;
  std::string name_, extra_;
  const OpRegistry* ops_;
  std::list<std::unique_ptr<Node>> nodes_;
  std::list<std::unique_ptr<Value>> values_;
  std::vector<Value*> inputs_, outputs_;
  std::unordered_map<std::string, Value*> by_name_;
  int64_t next_id_ = 0;
};

/// The call that `node` makes: types, constants and known elements bound, outputs as stored.
/// Views into the graph: do not outlive it. Captures are not operands of the call.
OpCall CallOf(const Node& node);
/// RNN, GRU or LSTM with weights that are numbers.
inline bool IsRecurrentLayer(const Node& node) {
  return node.Is(Trait::kRecurrent) && !node.Is(Trait::kQuantization);
}
/// How the node multiplies input 0 by weights, input 1; nullopt for an operator that does not.
std::optional<WeightLayout> WeightLayoutOf(const Node& node);

/// Hash of structure, attributes, types and constants; equal graphs hash equal whatever the names
/// of inner values and nodes. Interface names count.
uint64_t Fingerprint(const Graph& g);

/// "Conv 'conv1' -> 't12'": how messages name a node.
std::string Describe(const Node& n);

}  // namespace infer
