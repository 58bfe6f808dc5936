#include "quant/scheme/node_filter.h"

#include <re2/re2.h>

#include <algorithm>
#include <memory>
#include <set>

#include "lib/support/strings.h"
#include "quant/scheme/op_rules.h"

namespace infer {

struct NodeFilter::Entry {
  NodePattern pattern;
  std::unique_ptr<RE2> regex;
  std::set<std::string> of_operator;  ///< names of the original's layers with this operator

  bool MatchesName(const std::string& name) const {
    if (name.empty()) return false;
    if (pattern.kind == NodePattern::Kind::kRegex) return RE2::PartialMatch(name, *regex);
    return GlobMatch(pattern.text, name);
  }
  bool StandsForOperator(const Node& node) const {
    if (of_operator.empty() || !IsLayer(node)) return false;
    if (of_operator.contains(node.name())) return true;
    for (const std::string& name : node.fused_from())
      if (of_operator.contains(name)) return true;
    return std::any_of(node.outputs().begin(), node.outputs().end(),
                       [&](const Value* v) { return v && of_operator.contains(v->name()); });
  }
  /// What is meant by its operator: others (an Add that became a bias) are not what the node is.
  static bool IsLayer(const Node& node) {
    const QuantOp* op = FindQuantOp(node);
    return op && op->role == QuantRole::kWeighted;
  }
  /// Whether it matches a node of the graph or of its bodies.
  bool MatchesIn(const Graph& g) const;
  bool Matches(const Node& node) const {
    if (pattern.kind == NodePattern::Kind::kOp)
      return node.op() == pattern.text || StandsForOperator(node);
    if (pattern.kind == NodePattern::Kind::kValue)
      return std::any_of(node.outputs().begin(), node.outputs().end(),
                         [&](const Value* v) { return v && v->name() == pattern.text; });
    if (MatchesName(node.name())) return true;
    for (const std::string& name : node.fused_from())
      if (MatchesName(name)) return true;
    for (const Value* v : node.outputs())
      if (v && MatchesName(v->name())) return true;
    return false;
  }
};

NodePattern ParseNodePattern(const std::string& text) {
  if (text.rfind("re:", 0) == 0) return {NodePattern::Kind::kRegex, text.substr(3)};
  if (text.rfind("op:", 0) == 0) return {NodePattern::Kind::kOp, text.substr(3)};
  return {NodePattern::Kind::kGlob, text};
}

std::string ToString(const NodePattern& p) {
  constexpr std::string_view kKinds[] = {"glob", "regex", "operator", "value"};
  return Cat(kKinds[static_cast<size_t>(p.kind)], " '", p.text, "'");
}

Result<NodeFilter> NodeFilter::Compile(std::span<const NodePattern> patterns,
                                       const Graph* original) {
  NodeFilter filter;
  for (const NodePattern& p : patterns) {
    auto entry = std::make_shared<Entry>();
    entry->pattern = p;
    if (p.kind == NodePattern::Kind::kRegex) {
      entry->regex = std::make_unique<RE2>(p.text, RE2::Quiet);
      if (!entry->regex->ok())
        return InvalidArgument(Cat(ToString(p), ": ", entry->regex->error()));
    }
    if (p.kind == NodePattern::Kind::kOp && original)
      for (const auto& n : original->nodes()) {
        if (n->op() != p.text || !Entry::IsLayer(*n)) continue;
        if (!n->name().empty()) entry->of_operator.insert(n->name());
        for (const Value* v : n->outputs())
          if (v) entry->of_operator.insert(v->name());
      }
    filter.entries_.push_back(std::move(entry));
  }
  return filter;
}

const NodePattern* NodeFilter::Match(const Node& node) const {
  for (const auto& e : entries_)
    if (e->Matches(node)) return &e->pattern;
  return nullptr;
}

bool NodeFilter::Entry::MatchesIn(const Graph& g) const {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [&](const auto& n) {
    return Matches(*n) || std::any_of(n->subgraphs().begin(), n->subgraphs().end(),
                                      [&](const auto& s) { return MatchesIn(*s.second); });
  });
}

Status NodeFilter::CheckEachMatches(std::span<const Graph* const> graphs,
                                    std::string_view option) const {
  std::vector<std::string> idle;
  for (const auto& e : entries_) {
    const bool used =
        std::any_of(graphs.begin(), graphs.end(), [&](const Graph* g) { return e->MatchesIn(*g); });
    if (!used) idle.push_back(ToString(e->pattern));
  }
  if (idle.empty()) return {};
  return InvalidArgument(Cat(option, ": nothing in the model matches ", Join(idle, ", "),
                             " (names and operators: infer-opt inspect)"));
}

}  // namespace infer
