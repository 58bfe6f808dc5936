#include "lib/onnx/graph_builder.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "lib/ir/control_flow.h"
#include "lib/ir/editor.h"
#include "lib/onnx/attribute_proto.h"
#include "lib/onnx/declared_types.h"
#include "lib/onnx/kept_fields.h"
#include "lib/onnx/left_out.h"
#include "lib/onnx/opset.h"
#include "lib/onnx/scan8.h"
#include "lib/onnx/type_proto.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

class Builder : public LiftContext {
 public:
  Builder(const SourceGraph& source, BuildContext& ctx, std::string where)
      : source_(source),
        ctx_(ctx),
        where_(std::move(where)),
        graph_(std::make_unique<Graph>(ctx.ops, source.proto->name())),
        editor_(*graph_),
        declared_types_(ctx.ops),
        left_out_(ctx, where_) {}

  /// `captures`: outer values by name: constants become constants inside too (they share the
  /// buffer), the others inputs, in this order.
  Status Build(const std::vector<std::pair<std::string, const Value*>>& captures) {
    ctx_.warnings.insert(ctx_.warnings.end(), source_.warnings.begin(), source_.warnings.end());
    ReserveNames();
    INFER_TRY(AddInputs());
    for (const auto& [name, value] : captures) {
      if (value->is_constant()) {
        Bind(name, editor_.AddConstant(*value->constant(), name));
      } else {
        Value* inside = editor_.AddInput(name, value->type());
        editor_.CopyElements(inside, *value);
        Bind(name, inside);
      }
    }
    INFER_TRY(AddInitializers());
    for (const SourceGraph::Item& item : source_.items) {
      Status s = AddItem(item);
      // After a hole, later errors may only follow from it.
      if (!s.ok() && ctx_.unsupported.empty())
        return std::move(s).In(Cat("node ", onnx_io::Describe(*item.source.node)));
    }
    editor_.SetGraphExtra(KeptFields(*source_.proto, constant_nodes_, ctx_.tensors));
    return MarkOutputs();
  }

  std::unique_ptr<Graph> Take() { return std::move(graph_); }

  // LiftContext.
  void Emit(NodeSpec spec) override {
    if (emit_status_.ok()) emit_status_ = AddFinal(std::move(spec));
  }
  std::string Constant(Tensor t) override {
    std::string name = Fresh("const");
    Bind(name, editor_.AddConstant(std::move(t), name));
    return name;
  }
  std::string Fresh(std::string_view hint) override {
    for (;;) {
      std::string name = editor_.FreshName(hint);
      if (!reserved_.contains(name) && fresh_.insert(name).second) return name;
      hint = fresh_hint_ = Cat(hint, "_", ++fresh_count_);
    }
  }
  const Tensor* ConstantValue(const std::string& name) override {
    auto it = values_.find(name);
    return it == values_.end() ? nullptr : it->second->constant();
  }
  const ValueType* Type(const std::string& name) override {
    auto it = values_.find(name);
    return it == values_.end() ? nullptr : &it->second->type();
  }

 private:
  void Bind(const std::string& name, Value* v) {
    values_[name] = v;
    position_[v] = position_.size();
  }

  void ReserveNames() {
    for (const auto& x : source_.proto->input()) reserved_.insert(x.name());
    for (const auto& x : source_.proto->initializer()) reserved_.insert(x.name());
    for (const auto& item : source_.items)
      for (const std::string& name : item.source.node->output()) reserved_.insert(name);
    for (const std::string& name : source_.free) reserved_.insert(name);
    for (const auto& x : source_.proto->value_info()) declared_[x.name()] = &x.type();
    for (const auto& x : source_.proto->output()) declared_[x.name()] = &x.type();
  }

  Status AddInputs() {
    std::unordered_set<std::string> constants;
    for (const auto& x : source_.proto->initializer()) constants.insert(x.name());
    for (const auto& x : source_.proto->sparse_initializer()) constants.insert(x.values().name());
    for (const auto& x : source_.proto->input()) {
      if (constants.contains(x.name())) {
        defaults_[x.name()] = &x.type();
        continue;
      }
      auto type = FromTypeProto(x.type(), ctx_.options.limits.max_rank);
      if (!type.ok() && type.status().code() == Code::kUnsupported) {
        ctx_.unsupported.Add(type.status().message(), Cat("input '", x.name(), "'"));
        type = ValueType();
      }
      if (!type.ok()) return type.status().In(Cat("input '", x.name(), "'"));
      Bind(x.name(), editor_.AddInput(x.name(), *std::move(type)));
    }
    own_inputs_ = graph_->inputs().size();
    return {};
  }

  Status AddInitializers() {
    for (const auto& x : source_.proto->initializer())
      INFER_TRY(AddInitializer(x.name(), ctx_.tensors.Read(x)));
    for (const auto& x : source_.proto->sparse_initializer())
      INFER_TRY(AddInitializer(x.values().name(), ctx_.tensors.Read(x)));
    return {};
  }

  Status AddInitializer(const std::string& name, Result<Tensor> t) {
    if (t.ok()) {
      if (auto it = defaults_.find(name); it != defaults_.end()) {
        const auto declared = FromTypeProto(*it->second, ctx_.options.limits.max_rank);
        if (declared.ok() && !Meet(ValueType(t->type()), *declared).ok())
          return InvalidModel(Cat("initializer '", name, "' is ", ToString(t->type()),
                                  ", but as a graph input it is declared ", ToString(*declared)));
      }
      Bind(name, editor_.AddConstant(*std::move(t), name));
      return {};
    }
    if (t.status().code() != Code::kUnsupported) return t.status();
    ctx_.unsupported.Add(t.status().message(), Cat("initializer '", name, "'"));
    AddHole(name);
    return {};
  }

  /// Stands for a value that we cannot make, so that the rest can be looked at.
  void AddHole(const std::string& name) {
    if (!name.empty()) Bind(name, editor_.AddInput(name, ValueType()));
  }

  Status AddItem(const SourceGraph::Item& item) {
    const onnx::NodeProto& node = *item.source.node;
    if (node.op_type() == "Constant" && CanonicalDomain(node.domain()).empty())
      return AddConstantNode(node);
    const std::string domain = CanonicalDomain(node.domain());
    const auto found = item.source.opsets->find(domain);
    const int64_t opset = found == item.source.opsets->end() ? 1 : found->second;
    const auto def = FindOperator(ctx_.ops, domain, node.op_type(), opset);
    Status s;
    if (!def.ok()) {
      ctx_.unsupported.Add(def.status().message(), Cat(where_, onnx_io::Describe(node)));
    } else {
      node_ = &node;
      s = AddOperator(item, **def, static_cast<int>(opset));
      if (s.code() == Code::kUnsupported) {
        ctx_.unsupported.Add(Cat(node.op_type(), " (opset ", opset, "): ", s.message()),
                             Cat(where_, onnx_io::Describe(node)));
        s = {};
      }
    }
    for (const std::string& name : node.output())
      if (!name.empty() && !values_.contains(name)) {
        if (s.ok() && ctx_.unsupported.empty())
          s = Internal(Cat("output '", name, "' was not made by the lifted form"));
        AddHole(name);
      }
    return s;
  }

  Status AddOperator(const SourceGraph::Item& item, const OpDef& def, int opset) {
    const onnx::NodeProto& node = *item.source.node;
    NodeSpec spec{CanonicalDomain(node.domain()), node.op_type(), node.name(), {}, {}, {}};
    spec.inputs.assign(node.input().begin(), node.input().end());
    spec.outputs.assign(node.output().begin(), node.output().end());
    for (const auto& a : node.attribute()) {
      if (a.has_g()) continue;
      if (!a.ref_attr_name().empty())
        return InvalidModel(Cat("attribute '", a.name(), "' refers to a function's attribute '",
                                a.ref_attr_name(), "', but stands in no function"));
      INFER_ASSIGN(AttrValue value, FromAttribute(a, ctx_.tensors, ctx_.options.limits.max_rank));
      if (!spec.attrs.emplace(a.name(), std::move(value)).second)
        return InvalidModel(Cat("attribute '", a.name(), "' stands twice"));
    }
    INFER_TRY(CheckOperands(spec, def, opset));
    INFER_TRY(left_out_.CheckGraphs(item, def));
    spec.attrs = AttrsAt(def, spec.attrs, opset);  // as export would write them
    for (const auto& [attr, sub] : item.subgraphs)
      if (TakesGraph(def, attr)) return AddControlFlow(item, def, std::move(spec), opset);
    if (!def.lift) return AddFinal(std::move(spec));
    emit_status_ = {};
    const std::string first = spec.inputs.empty() ? "" : spec.inputs[0];
    const std::string result = spec.outputs.empty() ? "" : spec.outputs[0];
    INFER_TRY(def.lift(std::move(spec), opset, *this));
    if (emit_status_.ok() && BroadcastsToFirst(def, opset)) TakeShape(result, first);
    return std::move(emit_status_);
  }

  void TakeShape(const std::string& to, const std::string& from) {
    const auto result = values_.find(to), operand = values_.find(from);
    if (result == values_.end() || operand == values_.end()) return;
    Value* v = result->second;
    const ValueType& t = operand->second->type();
    if (!v->type().is_tensor() || !t.is_tensor() || !Meet(v->shape(), t.tensor().shape).ok())
      return;
    editor_.SetType(v, TensorType{v->dtype(), FillUnknown(v->shape(), t.tensor().shape)});
  }

  /// Node::fused_from: the node's name, or where it has none that of its first result.
  static std::vector<std::string> KnownAs(const NodeOptions& options) {
    if (!options.name.empty()) return {options.name};
    for (const std::string& result : options.output_names)
      if (!result.empty()) return {result};
    return {};
  }

  Status AddFinal(NodeSpec spec) {
    const OpDef* def = ctx_.ops.Find(spec.domain, spec.op);
    if (!def || def->retired())
      return Internal(Cat("a lifted form uses operator '", spec.op, "', which does not exist"));
    left_out_.DropUnknown(*node_, *def, spec.attrs);
    std::vector<Value*> inputs;
    INFER_TRY(Operands(spec.inputs, inputs));
    NodeOptions options;
    options.name = std::move(spec.name);
    // Of a list of results (Split) the number counts; required ones (TopK) keep their places.
    const bool list = !def->outputs.empty() && def->outputs.back().arity == Arity::kVariadic;
    const size_t least = list ? spec.outputs.size() : std::max<size_t>(1, def->min_outputs());
    while (spec.outputs.size() > least && spec.outputs.back().empty()) spec.outputs.pop_back();
    options.output_names = spec.outputs;
    options.fused_from = KnownAs(options);
    // What the lifted form's main node is called, it is.
    if (spec.op == node_->op_type() || options.name == node_->name())
      options.extra = KeptFields(*node_);
    INFER_ASSIGN(Node * n, editor_.AddNode(*def, std::move(inputs), std::move(spec.attrs),
                                           std::move(options)));
    return BindOutputs(*n, spec.outputs);
  }

  Status Operands(const std::vector<std::string>& names, std::vector<Value*>& out) {
    for (const std::string& name : names) {
      auto it = values_.find(name);
      if (!name.empty() && it == values_.end())
        return InvalidModel(Cat("reads '", name, "', which nothing defines"));
      out.push_back(name.empty() ? nullptr : it->second);
    }
    return {};
  }

  Status BindOutputs(const Node& n, const std::vector<std::string>& names) {
    declared_types_.Enter(n);
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i].empty()) continue;
      Value* v = n.output(i);
      if (v->name() != names[i] || values_.contains(names[i]))
        return InvalidModel(Cat("value '", names[i], "' is defined twice"));
      Bind(names[i], v);
      if (auto it = declared_.find(v->name()); it != declared_.end()) {
        const auto declared = FromTypeProto(*it->second, ctx_.options.limits.max_rank);
        if (declared.ok()) INFER_TRY(declared_types_.Add(*declared, i, editor_, ctx_.warnings));
      }
    }
    return {};
  }

  Status AddConstantNode(const onnx::NodeProto& node) {
    if (node.output_size() != 1 || node.attribute_size() != 1)
      return InvalidModel("a Constant needs one output and one attribute");
    const onnx::AttributeProto& a = node.attribute(0);
    auto value = FromAttribute(a, ctx_.tensors, ctx_.options.limits.max_rank);
    if (!value.ok() && value.status().code() == Code::kUnsupported) {
      ctx_.unsupported.Add(value.status().message(), Cat(where_, onnx_io::Describe(node)));
      AddHole(node.output(0));
      return {};
    }
    if (!value.ok()) return value.status();
    Tensor t = ConstantOf(*value);
    if (!t.defined()) return InvalidModel("a Constant without a value");
    if (node.output(0).empty()) return {};
    Bind(node.output(0), editor_.AddConstant(std::move(t), node.output(0)));
    constant_nodes_.push_back(&node);
    return {};
  }

  Status AddControlFlow(const SourceGraph::Item& item, const OpDef& def, NodeSpec spec, int opset) {
    const auto captures = CapturesOf(item);
    std::vector<Subgraph> subgraphs;
    for (const auto& [attr, sub] : item.subgraphs) {
      if (!TakesGraph(def, attr)) continue;
      Builder inner(*sub, ctx_, Cat(where_, onnx_io::Describe(*item.source.node), ".", attr, ": "));
      INFER_TRY(inner.Build(captures).In(attr));
      subgraphs.push_back({attr, inner.Take(), inner.own_inputs_});
    }
    OrderAsDeclared(def, subgraphs);
    const bool batched = def.name == "Scan" && opset < 9;
    const bool has_lengths = batched && !spec.inputs.empty() && !spec.inputs[0].empty();
    if (batched) {
      if (spec.inputs.size() < 2) return InvalidModel("Scan has no operands");
      // The lengths come last: one more operand that the Scan over the batch reads.
      if (!spec.inputs[0].empty()) spec.inputs.push_back(spec.inputs[0]);
      spec.inputs.erase(spec.inputs.begin());
    }
    left_out_.DropUnknown(*node_, def, spec.attrs);
    std::vector<Value*> inputs;
    INFER_TRY(Operands(spec.inputs, inputs));
    std::vector<Value*> captured;
    for (const auto& [name, value] : captures)
      if (!value->is_constant()) captured.push_back(const_cast<Value*>(value));
    DropUnreadCaptures(subgraphs, captured);
    if (batched)
      INFER_TRY(ScanOverBatch(def, inputs, has_lengths, captured, spec.attrs, subgraphs, ctx_.ops));
    NodeOptions options;
    options.num_captures = captured.size();
    inputs.insert(inputs.end(), captured.begin(), captured.end());
    for (Subgraph& sub : subgraphs)
      options.subgraphs.emplace_back(std::move(sub.attr), std::move(sub.graph));
    options.name = std::move(spec.name);
    options.output_names = spec.outputs;
    options.fused_from = KnownAs(options);
    options.extra = KeptFields(*node_);
    INFER_ASSIGN(Node * n, editor_.AddNode(def, std::move(inputs), std::move(spec.attrs),
                                           std::move(options)));
    return BindOutputs(*n, spec.outputs);
  }

  /// Values that the node's subgraphs read from here, in the order of their definition.
  std::vector<std::pair<std::string, const Value*>> CapturesOf(const SourceGraph::Item& item) {
    std::vector<std::pair<std::string, const Value*>> out;
    std::unordered_set<std::string> seen;
    for (const auto& [attr, sub] : item.subgraphs)
      for (const std::string& name : sub->free)
        if (auto it = values_.find(name); it != values_.end() && seen.insert(name).second)
          out.emplace_back(name, it->second);
    std::sort(out.begin(), out.end(), [this](const auto& a, const auto& b) {
      return position_.at(a.second) < position_.at(b.second);
    });
    return out;
  }

  /// `v`, or where a body would return an outer value, or one twice, an Identity of it: bodies are
  /// written with one there (ONNX wants their outputs to be their own), so they are read so.
  Result<Value*> OwnOutput(Value* v) {
    if (where_.empty()) return v;
    const auto captures = graph_->inputs().begin() + static_cast<ptrdiff_t>(own_inputs_);
    const bool outer = std::find(captures, graph_->inputs().end(), v) != graph_->inputs().end();
    if (!outer && !v->is_output()) return v;
    INFER_ASSIGN(Node * copy, editor_.AddNode(*ctx_.ops.Find("", "Identity"), {v}, {}, {}));
    return copy->output(0);
  }

  Status MarkOutputs() {
    for (const auto& x : source_.proto->output()) {
      auto it = values_.find(x.name());
      if (it == values_.end()) {
        if (!ctx_.unsupported.empty()) continue;
        return InvalidModel(Cat("graph output '", x.name(), "' is defined nowhere"));
      }
      const auto declared = FromTypeProto(x.type(), ctx_.options.limits.max_rank);
      if (declared.status().code() == Code::kInvalidModel)
        return declared.status().In(Cat("graph output '", x.name(), "'"));
      if (declared.ok() && !SameElements(it->second->type(), *declared))
        return InvalidModel(Cat("graph output '", x.name(), "' is declared ", ToString(*declared),
                                ", but is ", ToString(it->second->type())));
      INFER_ASSIGN(Value * own, OwnOutput(it->second));
      editor_.MarkOutput(own);
      // Nothing is derived from the shape of a model's output that nobody reads, and files have to
      // say one.
      const bool is_last = where_.empty() && own->uses().empty();
      if (is_last && declared.ok() && declared->is_tensor() && own->type().is_tensor() &&
          !own->shape().has_rank() && declared->tensor().shape.has_rank())
        editor_.SetType(own, TensorType{own->dtype(), declared->tensor().shape});
    }
    if (!ctx_.unsupported.empty()) return {};
    if (const int dead = editor_.Sweep(); dead > 0)
      ctx_.warnings.push_back(
          Cat(where_, dead, " node", dead == 1 ? "" : "s", " that no output needs left out"));
    return {};
  }

  const SourceGraph& source_;
  BuildContext& ctx_;
  std::string where_;  // "", or the path of nodes that lead here
  std::unique_ptr<Graph> graph_;
  GraphEditor editor_;
  DeclaredTypes declared_types_;
  LeftOut left_out_;
  size_t own_inputs_ = 0;
  std::unordered_map<std::string, Value*> values_;
  std::unordered_map<const Value*, size_t> position_;
  std::unordered_map<std::string, const onnx::TypeProto*> declared_;
  std::unordered_map<std::string, const onnx::TypeProto*> defaults_;  // inputs with an initializer
  std::unordered_set<std::string> reserved_, fresh_;
  std::string fresh_hint_;
  int64_t fresh_count_ = 0;
  const onnx::NodeProto* node_ = nullptr;  // being added
  std::vector<const onnx::NodeProto*> constant_nodes_;
  Status emit_status_;
};

}  // namespace

Result<Graph> BuildGraph(const SourceGraph& source, BuildContext& ctx) {
  Builder builder(source, ctx, "");
  INFER_TRY(builder.Build({}));
  return std::move(*builder.Take());
}

}  // namespace infer::onnx_io
