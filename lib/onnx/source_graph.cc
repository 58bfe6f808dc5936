#include "lib/onnx/source_graph.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

constexpr size_t kNotANode = SIZE_MAX;  // a graph input or an initializer

using Definitions = std::unordered_map<std::string, size_t>;

/// Exporters exist that write two Constant nodes of one name. Runtimes take the last; so do we.
void DropRepeatedConstants(SourceGraph& g) {
  std::unordered_map<std::string, size_t> last;
  std::vector<bool> dropped(g.items.size(), false);
  for (size_t i = 0; i < g.items.size(); ++i) {
    const onnx::NodeProto& n = *g.items[i].source.node;
    if (n.op_type() != "Constant" || !CanonicalDomain(n.domain()).empty() || n.output_size() != 1)
      continue;
    auto [it, fresh] = last.emplace(n.output(0), i);
    if (fresh) continue;
    dropped[it->second] = true;
    it->second = i;
    g.warnings.push_back(
        Cat("constant '", n.output(0), "' is defined twice; the last definition counts"));
  }
  std::vector<SourceGraph::Item> kept;
  for (size_t i = 0; i < g.items.size(); ++i)
    if (!dropped[i]) kept.push_back(std::move(g.items[i]));
  g.items = std::move(kept);
}

Result<Definitions> Define(const SourceGraph& g) {
  Definitions out;
  auto define = [&](const std::string& name, size_t node) -> Status {
    if (name.empty()) return node == kNotANode ? InvalidModel("a value without a name") : Status();
    if (!out.emplace(name, node).second)
      return InvalidModel(Cat("value '", name, "' is defined twice"));
    return {};
  };
  for (const auto& x : g.proto->input()) INFER_TRY(define(x.name(), kNotANode));
  // An initializer may stand among the inputs too (the rule up to IR 3): then it is the default.
  std::unordered_set<std::string> constants;
  auto define_constant = [&](const std::string& name) -> Status {
    if (!constants.insert(name).second)
      return InvalidModel(Cat("initializer '", name, "' is defined twice"));
    if (!out.contains(name)) return define(name, kNotANode);
    return {};
  };
  for (const auto& x : g.proto->initializer()) INFER_TRY(define_constant(x.name()));
  for (const auto& x : g.proto->sparse_initializer()) INFER_TRY(define_constant(x.values().name()));
  for (size_t i = 0; i < g.items.size(); ++i)
    for (const std::string& name : g.items[i].source.node->output()) INFER_TRY(define(name, i));
  return out;
}

Status CycleError(const std::vector<SourceGraph::Item>& items, const std::vector<size_t>& missing,
                  const std::vector<std::vector<size_t>>& readers) {
  // Every node left waits for another one left: walk backwards until one repeats.
  std::vector<size_t> waits_for(items.size(), kNotANode);
  for (size_t i = 0; i < items.size(); ++i)
    if (missing[i] > 0)
      for (size_t r : readers[i]) waits_for[r] = i;
  size_t at = 0;
  while (missing[at] == 0) ++at;
  std::vector<bool> seen(items.size(), false);
  while (!seen[at]) {
    seen[at] = true;
    at = waits_for[at];
  }
  std::vector<std::string> names;
  for (size_t start = at; names.size() < 8;) {
    names.push_back(Describe(*items[at].source.node));
    at = waits_for[at];
    if (at == start) break;
  }
  return InvalidModel(Cat("the graph has a cycle: ", Join(names, " <- ")));
}

/// Kahn's algorithm, lowest file position first: a sorted file keeps its order.
Status Sort(SourceGraph& g, const std::vector<std::vector<size_t>>& readers,
            std::vector<size_t> missing) {
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < g.items.size(); ++i)
    if (missing[i] == 0) ready.push(i);
  std::vector<SourceGraph::Item> sorted;
  sorted.reserve(g.items.size());
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    for (size_t r : readers[i])
      if (--missing[r] == 0) ready.push(r);
    sorted.push_back({g.items[i].source, std::move(g.items[i].subgraphs)});
  }
  if (sorted.size() < g.items.size()) return CycleError(g.items, missing, readers);
  g.items = std::move(sorted);
  return {};
}

Status Link(SourceGraph& g) {
  INFER_ASSIGN(const Definitions defined, Define(g));
  std::vector<std::vector<size_t>> readers(g.items.size());
  std::vector<size_t> missing(g.items.size(), 0);
  std::unordered_set<std::string> free;
  auto read = [&](const std::string& name, size_t reader, const std::string& description) {
    if (name.empty()) return;
    auto it = defined.find(name);
    if (it == defined.end()) {
      if (free.insert(name).second) {
        g.free.push_back(name);
        g.free_readers.push_back(description);
      }
    } else if (it->second != kNotANode && reader != kNotANode) {
      readers[it->second].push_back(reader);
      ++missing[reader];
    }
  };
  for (size_t i = 0; i < g.items.size(); ++i) {
    const SourceGraph::Item& item = g.items[i];
    for (const std::string& name : item.source.node->input())
      read(name, i, Describe(*item.source.node));
    for (const auto& [attr, sub] : item.subgraphs)
      for (size_t k = 0; k < sub->free.size(); ++k) read(sub->free[k], i, sub->free_readers[k]);
  }
  for (const auto& output : g.proto->output()) {
    if (output.name().empty()) return InvalidModel("a graph output without a name");
    read(output.name(), kNotANode, "the graph's outputs");
  }
  return Sort(g, readers, std::move(missing));
}

}  // namespace

std::string Describe(const onnx::NodeProto& node) {
  if (!node.name().empty()) return Cat(node.op_type(), " '", node.name(), "'");
  return Cat(node.op_type(), " -> '", node.output_size() > 0 ? node.output(0) : "", "'");
}

Result<std::unique_ptr<SourceGraph>> PrepareGraph(const onnx::GraphProto& proto,
                                                  const Opsets& opsets, FunctionTable& functions,
                                                  const ImportLimits& limits, int depth) {
  if (depth > limits.max_subgraph_depth)
    return InvalidModel(Cat("subgraphs nest more than ", limits.max_subgraph_depth, " deep"));
  auto g = std::make_unique<SourceGraph>();
  g->proto = &proto;
  std::vector<SourceNode> nodes;
  for (const auto& node : proto.node()) INFER_TRY(functions.Expand({&node, &opsets}, nodes));
  for (const SourceNode& node : nodes) {
    SourceGraph::Item item{node, {}};
    for (const auto& a : node.node->attribute()) {
      if (!a.has_g()) continue;
      auto sub = PrepareGraph(a.g(), *node.opsets, functions, limits, depth + 1);
      if (!sub.ok()) return sub.status().In(Cat("node ", Describe(*node.node), ": ", a.name()));
      item.subgraphs.emplace_back(a.name(), *std::move(sub));
    }
    g->items.push_back(std::move(item));
  }
  DropRepeatedConstants(*g);
  INFER_TRY(Link(*g));
  return g;
}

}  // namespace infer::onnx_io
