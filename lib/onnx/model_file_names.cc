/// Names of values in a GraphProto.
#include "lib/onnx/functions.h"
#include "lib/onnx/model_file_state.h"
#include "lib/support/similar.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

using NameSet = std::unordered_set<std::string>;

/// What the graph itself defines, bodies not.
NameSet DefinedBy(const onnx::GraphProto& g) {
  NameSet names;
  for (const auto& x : g.input()) names.insert(x.name());
  for (const auto& x : g.initializer()) names.insert(x.name());
  for (const auto& x : g.sparse_initializer()) names.insert(x.values().name());
  for (const auto& n : g.node()) names.insert(n.output().begin(), n.output().end());
  return names;
}

using Visit = std::function<void(std::string&)>;

void VisitGraph(onnx::GraphProto& g, const Visit& visit);

void VisitNode(onnx::NodeProto& n, const Visit& visit) {
  for (std::string& name : *n.mutable_input()) visit(name);
  for (std::string& name : *n.mutable_output()) visit(name);
  const auto enter = [&](onnx::GraphProto& body) {
    const NameSet own = DefinedBy(body);
    VisitGraph(body, [&](std::string& name) {
      if (!own.contains(name)) visit(name);
    });
  };
  for (auto& a : *n.mutable_attribute()) {
    if (a.has_g()) enter(*a.mutable_g());
    for (auto& body : *a.mutable_graphs()) enter(body);
  }
}

void VisitGraph(onnx::GraphProto& g, const Visit& visit) {
  for (auto* list : {g.mutable_input(), g.mutable_output(), g.mutable_value_info()})
    for (auto& x : *list) visit(*x.mutable_name());
  for (auto& x : *g.mutable_sparse_initializer()) visit(*x.mutable_values()->mutable_name());
  for (auto& n : *g.mutable_node()) VisitNode(n, visit);
  for (auto& a : *g.mutable_quantization_annotation()) {
    visit(*a.mutable_tensor_name());
    for (auto& p : *a.mutable_quant_parameter_tensor_names()) visit(*p.mutable_value());
  }
}

void AddReads(const onnx::NodeProto& n, const NameSet& hidden, NameSet& seen,
              std::vector<std::string>& out);

void AddReads(const onnx::GraphProto& body, NameSet hidden, NameSet& seen,
              std::vector<std::string>& out) {
  hidden.merge(DefinedBy(body));
  for (const auto& n : body.node()) AddReads(n, hidden, seen, out);
  for (const auto& x : body.output())
    if (!hidden.contains(x.name()) && seen.insert(x.name()).second) out.push_back(x.name());
}

void AddReads(const onnx::NodeProto& n, const NameSet& hidden, NameSet& seen,
              std::vector<std::string>& out) {
  for (const std::string& name : n.input())
    if (!name.empty() && !hidden.contains(name) && seen.insert(name).second) out.push_back(name);
  for (const auto& a : n.attribute()) {
    if (a.has_g()) AddReads(a.g(), hidden, seen, out);
    for (const auto& body : a.graphs()) AddReads(body, hidden, seen, out);
  }
}

}  // namespace

std::vector<std::string> ReadsOf(const onnx::NodeProto& node) {
  NameSet seen;
  std::vector<std::string> out;
  AddReads(node, {}, seen, out);
  return out;
}

void ForEachMention(onnx::GraphProto& graph, const std::function<void(std::string&)>& visit) {
  VisitGraph(graph, [&](std::string& name) {
    if (!name.empty()) visit(name);
  });
}

void CollectNames(const onnx::GraphProto& graph, std::unordered_set<std::string>& names) {
  names.merge(DefinedBy(graph));
  for (const auto& n : graph.node())
    for (const auto& a : n.attribute()) {
      if (a.has_g()) CollectNames(a.g(), names);
      for (const auto& body : a.graphs()) CollectNames(body, names);
    }
}

std::set<std::pair<std::string, std::string>> CalledFunctions(const onnx::ModelProto& header,
                                                              const onnx::GraphProto& graph) {
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions;
  for (const auto& f : header.functions()) functions[{CanonicalDomain(f.domain()), f.name()}] = &f;
  std::set<std::pair<std::string, std::string>> called;
  const std::function<void(const onnx::NodeProto&)> visit = [&](const onnx::NodeProto& n) {
    const auto it = functions.find({CanonicalDomain(n.domain()), n.op_type()});
    if (it != functions.end() && called.insert(it->first).second)
      for (const auto& inner : it->second->node()) visit(inner);
    for (const auto& a : n.attribute()) {
      for (const auto& inner : a.g().node()) visit(inner);
      for (const auto& body : a.graphs())
        for (const auto& inner : body.node()) visit(inner);
    }
  };
  for (const auto& n : graph.node()) visit(n);
  return called;
}

std::string DescribeNode(const onnx::NodeProto& n) {
  if (!n.name().empty()) return Cat(n.op_type(), " '", n.name(), "'");
  return Cat(n.op_type(), " -> '", n.output_size() > 0 ? n.output(0) : "", "'");
}

Status NoSuch(std::string_view what, const std::string& name,
              const std::vector<std::string>& names) {
  return InvalidArgument(Cat("there is no ", what, " '", name, "'", DidYouMean(name, names)));
}

}  // namespace infer::onnx_io
