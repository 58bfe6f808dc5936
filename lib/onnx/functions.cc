#include "lib/onnx/functions.h"

#include <google/protobuf/unknown_field_set.h>

#include <set>

#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

// Fields newer than the proto classes that we compile against; they arrive as unknown fields.
constexpr int kNodeOverload = 8;
constexpr int kFunctionAttributeProto = 11;
constexpr int kFunctionOverload = 13;

std::string UnknownString(const google::protobuf::Message& m, int number) {
  const auto& fields = m.GetReflection()->GetUnknownFields(m);
  for (int i = 0; i < fields.field_count(); ++i)
    if (fields.field(i).number() == number &&
        fields.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      return fields.field(i).length_delimited();
  return "";
}

/// Rewrites the names of one call's nodes: parameters become arguments, everything else gets the
/// call's prefix, so that two calls never meet. Subgraphs have scopes of their own.
class Renamer {
 public:
  Renamer(std::string prefix, std::map<std::string, std::string> parameters,
          const std::map<std::string, const onnx::AttributeProto*>& attributes)
      : prefix_(std::move(prefix)), attributes_(attributes) {
    scopes_.push_back(std::move(parameters));
  }

  void Rename(onnx::NodeProto& node) {
    node.set_name(Cat(prefix_, node.name()));
    for (auto& name : *node.mutable_input()) name = Map(name);
    for (auto& name : *node.mutable_output()) name = Map(name);
    google::protobuf::RepeatedPtrField<onnx::AttributeProto> attributes;
    for (auto& a : *node.mutable_attribute()) {
      if (!a.ref_attr_name().empty()) {
        auto it = attributes_.find(a.ref_attr_name());
        if (it == attributes_.end()) continue;  // an optional attribute that the call leaves out
        auto* bound = attributes.Add();
        *bound = *it->second;
        bound->set_name(a.name());
        continue;
      }
      if (a.has_g()) Rename(*a.mutable_g());
      *attributes.Add() = std::move(a);
    }
    node.mutable_attribute()->Swap(&attributes);
  }

 private:
  std::string Map(const std::string& name) {
    if (name.empty()) return name;
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (auto it = scope->find(name); it != scope->end()) return it->second;
    return scopes_.front()[name] = Cat(prefix_, name);
  }

  void Define(const std::string& name, const std::string& prefix) {
    if (!name.empty()) scopes_.back()[name] = Cat(prefix, name);
  }

  void Rename(onnx::GraphProto& graph) {
    const std::string prefix = Cat(prefix_, "g", ++graphs_, "/");
    scopes_.emplace_back();
    for (const auto& x : graph.input()) Define(x.name(), prefix);
    for (const auto& x : graph.initializer()) Define(x.name(), prefix);
    for (const auto& x : graph.sparse_initializer()) Define(x.values().name(), prefix);
    for (const auto& n : graph.node())
      for (const auto& name : n.output()) Define(name, prefix);
    for (auto* list : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()})
      for (auto& x : *list) x.set_name(Map(x.name()));
    for (auto& x : *graph.mutable_initializer()) x.set_name(Map(x.name()));
    for (auto& x : *graph.mutable_sparse_initializer())
      x.mutable_values()->set_name(Map(x.values().name()));
    for (auto& n : *graph.mutable_node()) Rename(n);
    scopes_.pop_back();
  }

  std::string prefix_;
  std::vector<std::map<std::string, std::string>> scopes_;
  const std::map<std::string, const onnx::AttributeProto*>& attributes_;
  int64_t graphs_ = 0;
};

int64_t CountNodes(const onnx::GraphProto& g);
int64_t CountNodes(const onnx::NodeProto& node) {
  int64_t n = 1;
  for (const auto& a : node.attribute())
    if (a.has_g()) n += CountNodes(a.g());
  return n;
}
int64_t CountNodes(const onnx::GraphProto& g) {
  int64_t n = 0;
  for (const auto& node : g.node()) n += CountNodes(node);
  return n;
}

}  // namespace

std::string CanonicalDomain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

Opsets OpsetsOf(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  Opsets out;
  for (const auto& o : imports) out[CanonicalDomain(o.domain())] = o.version();
  return out;
}

Result<FunctionTable> FunctionTable::Of(const onnx::ModelProto& model, const ImportLimits& limits,
                                        OperatorOf operator_of) {
  FunctionTable table;
  table.limits_ = limits;
  table.operator_of_ = std::move(operator_of);
  for (const auto& f : model.functions()) {
    Function entry{&f, OpsetsOf(f.opset_import()), {}};
    // A domain that the function does not import has the model's version.
    entry.opsets.merge(OpsetsOf(model.opset_import()));
    const auto& unknown = f.GetReflection()->GetUnknownFields(f);
    for (int i = 0; i < unknown.field_count(); ++i) {
      const auto& field = unknown.field(i);
      onnx::AttributeProto a;
      if (field.number() != kFunctionAttributeProto ||
          field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
        continue;
      if (!a.ParseFromString(field.length_delimited()))
        return InvalidModel(Cat("function '", f.name(), "': a broken attribute default"));
      entry.defaults[a.name()] = std::move(a);
    }
    Key key{CanonicalDomain(f.domain()), f.name(), UnknownString(f, kFunctionOverload)};
    if (!table.functions_.emplace(std::move(key), std::move(entry)).second)
      return InvalidModel(Cat("two functions '", f.domain(), "::", f.name(), "'"));
  }
  return table;
}

Status FunctionTable::Expand(const SourceNode& node, int depth, std::vector<SourceNode>& out) {
  auto it = functions_.empty()
                ? functions_.end()
                : functions_.find({CanonicalDomain(node.node->domain()), node.node->op_type(),
                                   UnknownString(*node.node, kNodeOverload)});
  if (it == functions_.end()) {
    out.push_back(node);
    return {};
  }
  if (const std::string op = operator_of_(*it->second.proto, *node.node); !op.empty()) {
    onnx::NodeProto& named = nodes_.emplace_back(*node.node);
    named.set_op_type(op);
    out.push_back({&named, node.opsets});
    return {};
  }
  if (depth >= limits_.max_call_depth)
    return InvalidModel(Cat("function '", node.node->op_type(), "': calls nest more than ",
                            limits_.max_call_depth, " deep, or go in a circle"));
  if (++calls_ > limits_.max_nodes)
    return InvalidModel(Cat("more than ", limits_.max_nodes, " function calls"));
  return ExpandCall(it->second, *node.node, depth, out);
}

Status FunctionTable::ExpandCall(const Function& function, const onnx::NodeProto& call, int depth,
                                 std::vector<SourceNode>& out) {
  const onnx::FunctionProto& f = *function.proto;
  auto broken = [&](std::string_view why) {
    return InvalidModel(Cat("node '", call.name(), "': function '", f.name(), "' ", why));
  };
  if (call.input_size() > f.input_size()) return broken("is called with too many inputs");
  if (call.output_size() > f.output_size()) return broken("is called with too many outputs");
  const std::string prefix = Cat(call.name().empty() ? f.name() : call.name(), "#", calls_, "/");
  std::map<std::string, std::string> names;
  for (int i = 0; i < f.input_size(); ++i)
    if (!names.emplace(f.input(i), i < call.input_size() ? call.input(i) : "").second)
      return broken("has two inputs of one name");
  std::vector<std::pair<std::string, std::string>> copies;  // outputs that are no node's own
  for (int i = 0; i < call.output_size(); ++i) {
    const std::string& wanted = call.output(i);
    if (wanted.empty()) continue;
    auto [it, fresh] = names.emplace(f.output(i), wanted);
    if (!fresh) copies.emplace_back(it->second, wanted);
  }
  std::map<std::string, const onnx::AttributeProto*> attributes;
  for (const auto& [name, value] : function.defaults) attributes[name] = &value;
  for (const auto& a : call.attribute()) attributes[a.name()] = &a;

  Renamer renamer(prefix, std::move(names), attributes);
  for (const auto& body_node : f.node()) {
    expanded_ += CountNodes(body_node);
    if (expanded_ > limits_.max_nodes)
      return InvalidModel(Cat("more than ", limits_.max_nodes, " nodes after inlining"));
    nodes_.push_back(body_node);
    onnx::NodeProto& node = nodes_.back();
    renamer.Rename(node);
    INFER_TRY(Expand({&node, &function.opsets}, depth + 1, out));
  }
  for (const auto& [from, to] : copies) {
    onnx::NodeProto& node = nodes_.emplace_back();
    node.set_op_type("Identity");
    node.add_input(from);
    node.add_output(to);
    out.push_back({&node, &function.opsets});
  }
  return {};
}

}  // namespace infer::onnx_io
