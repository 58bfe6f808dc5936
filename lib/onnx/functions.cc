#include "lib/onnx/functions.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <set>
#include <string_view>

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

int64_t BytesOf(const google::protobuf::Message& m) {
  return static_cast<int64_t>(m.ByteSizeLong());
}

/// What inlining may still make. Below 0: it went over a limit.
struct Budget {
  int64_t& nodes;
  int64_t& bytes;
  bool spent() const { return nodes < 0 || bytes < 0; }
};

/// Rewrites the names of one call's nodes: parameters become arguments, everything else gets the
/// call's prefix, so that two calls never meet. Subgraphs have scopes of their own.
class Renamer {
 public:
  Renamer(std::string prefix, std::map<std::string, std::string> parameters,
          const std::map<std::string, const onnx::AttributeProto*>& attributes, Budget budget)
      : prefix_(std::move(prefix)), attributes_(attributes), budget_(budget) {
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
        // No count of functions can know what calls will put here.
        budget_.bytes -= BytesOf(*it->second);
        if (it->second->has_g()) budget_.nodes -= CountNodes(it->second->g());
        if (budget_.spent()) return;
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
  Budget budget_;
  int64_t graphs_ = 0;
};

}  // namespace

int64_t CountNodes(const onnx::GraphProto& g) {
  int64_t count = g.node_size();
  for (const auto& n : g.node())
    for (const auto& a : n.attribute()) {
      if (a.has_g()) count += CountNodes(a.g());
      for (const auto& body : a.graphs()) count += CountNodes(body);
    }
  return count;
}

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
  table.nodes_left_ = limits.max_nodes;
  table.bytes_left_ = limits.max_inlined_bytes;
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
  if (table.functions_.empty()) return table;
  INFER_ASSIGN(const Size size, table.SizeOf(model.graph().node(), 0));
  if (size.nodes > limits.max_nodes)
    return InvalidModel(Cat("more than ", limits.max_nodes, " nodes once functions are inlined"));
  if (size.bytes > BytesOf(model.graph()) + limits.max_inlined_bytes)
    return InvalidModel(
        Cat("more than ", limits.max_inlined_bytes, " bytes of nodes once functions are inlined"));
  return table;
}

void FunctionTable::Size::Add(const Size& s) {
  constexpr int64_t kMost = int64_t{1} << 60;  // two of these do not overflow
  nodes = std::min(nodes + s.nodes, kMost);
  bytes = std::min(bytes + s.bytes, kMost);
  names = std::min(names + s.names, kMost);
  height = std::max(height, s.height);
}

const FunctionTable::Function* FunctionTable::FunctionOf(const onnx::NodeProto& node) const {
  if (functions_.empty()) return nullptr;
  auto it = functions_.find(
      {CanonicalDomain(node.domain()), node.op_type(), UnknownString(node, kNodeOverload)});
  return it == functions_.end() ? nullptr : &it->second;
}

Result<FunctionTable::Size> FunctionTable::SizeOf(
    const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int depth, bool inner) {
  constexpr int64_t kCallNumber = 12;  // "#1000000/" and a length that grows
  Size out;
  for (const auto& node : nodes) {
    out.Add({1, inner ? 0 : BytesOf(node), 1 + node.input_size() + node.output_size(), 0});
    for (const auto& a : node.attribute()) {
      if (!a.has_g()) continue;
      INFER_ASSIGN(Size inside, SizeOf(a.g().node(), depth, true));
      inside.names += a.g().input_size() + a.g().output_size() + a.g().value_info_size() +
                      a.g().initializer_size() + a.g().sparse_initializer_size();
      out.Add(inside);
    }
    const Function* callee = FunctionOf(node);
    if (!callee) continue;
    INFER_ASSIGN(Size body, SizeOf(*callee, depth + 1));
    // Each call puts its own name in front of all names within.
    const double prefix = static_cast<double>(node.name().size() + kCallNumber);
    body.bytes = static_cast<int64_t>(std::min(
        0x1p60, static_cast<double>(body.bytes) + prefix * static_cast<double>(body.names)));
    ++body.height;
    out.Add(body);
  }
  return out;
}

Result<FunctionTable::Size> FunctionTable::SizeOf(const Function& function, int depth) {
  const onnx::FunctionProto& f = *function.proto;
  if (auto it = sizes_.find(&function); it != sizes_.end()) {
    if (depth + it->second.height <= limits_.max_call_depth) return it->second;
    depth = limits_.max_call_depth + 1;
  }
  if (depth > limits_.max_call_depth)
    return InvalidModel(Cat("function '", f.name(), "': calls nest more than ",
                            limits_.max_call_depth, " deep, or go in a circle"));
  INFER_ASSIGN(Size out, SizeOf(f.node(), depth));
  // A call that makes no node costs time still: one look at each parameter.
  Size call;
  for (const auto* list : {&f.input(), &f.output()})
    for (const std::string& name : *list) call.bytes += static_cast<int64_t>(name.size()) + 2;
  // An output that is no node's own is copied from what it is.
  std::set<std::string_view> parameters(f.input().begin(), f.input().end());
  for (const std::string& name : f.output())
    if (!parameters.insert(name).second) call.Add({1, 20, 3, 0});
  for (const auto& [name, value] : function.defaults) call.bytes += BytesOf(value);
  out.Add(call);
  return sizes_[&function] = out;
}

Status FunctionTable::Expand(const SourceNode& node, int depth, std::vector<SourceNode>& out) {
  const Function* callee = FunctionOf(*node.node);
  if (!callee) {
    out.push_back(node);
    return {};
  }
  if (const std::string op = operator_of_(*callee->proto, *node.node); !op.empty()) {
    onnx::NodeProto& named = nodes_.emplace_back(*node.node);
    named.set_op_type(op);
    out.push_back({&named, node.opsets});
    return {};
  }
  if (depth >= limits_.max_call_depth)
    return InvalidModel(Cat("function '", node.node->op_type(), "': calls nest more than ",
                            limits_.max_call_depth, " deep, or go in a circle"));
  ++calls_;
  return ExpandCall(*callee, *node.node, depth, out);
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

  const Budget budget{nodes_left_, bytes_left_};
  Renamer renamer(prefix, std::move(names), attributes, budget);
  for (const auto& body_node : f.node()) {
    nodes_.push_back(body_node);
    onnx::NodeProto& node = nodes_.back();
    renamer.Rename(node);
    // The count beforehand bounds this, but for attributes that are passed on.
    nodes_left_ -= 1;
    bytes_left_ -= BytesOf(node);
    if (budget.spent())
      return broken("makes too many nodes, or too large ones, of attributes that it passes on");
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
