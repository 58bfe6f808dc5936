#include "tools/graph/relate.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr size_t kMaxListed = 16, kMaxText = 200;  // numbers of a list, bytes of a text

std::string ElementText(int64_t v) { return Cat(v); }
std::string ElementText(float v) { return Rounded(static_cast<double>(v), 6); }
std::string ElementText(const std::string& v) {
  return Cat("\"", v.substr(0, kMaxText), v.size() > kMaxText ? "..." : "", "\"");
}

template <typename T>
std::string ListText(const std::vector<T>& values) {
  std::vector<std::string> out;
  for (const T& v : values) {
    if (out.size() == kMaxListed) {
      out.push_back("...");
      break;
    }
    out.push_back(ElementText(v));
  }
  return Cat("[", Join(out, ", "), "]");
}

std::string ResultName(const Node& n) {
  for (const Value* v : n.outputs())
    if (v) return v->name();
  return "";
}

struct RelatedSide {
  std::vector<const Node*> nodes;
  std::unordered_map<const Node*, int> index;
  std::unordered_map<std::string, std::vector<int>> by_name;
  std::unordered_map<std::string, int> by_result;

  explicit RelatedSide(const Graph& g) {
    for (const auto& n : g.nodes()) {
      const auto i = static_cast<int>(nodes.size());
      index[n.get()] = i;
      if (!n->name().empty()) by_name[n->name()].push_back(i);
      by_result.emplace(ResultName(*n), i);
      nodes.push_back(n.get());
    }
  }
  const Node& operator[](int i) const { return *nodes[static_cast<size_t>(i)]; }
  /// -1: none, or several.
  int Named(const std::string& name) const {
    const auto it = by_name.find(name);
    return it == by_name.end() || it->second.size() != 1 ? -1 : it->second[0];
  }
};

/// Which nodes of `before` a node of `after` stands for.
std::vector<int> OriginsOf(const Node& n, const RelatedSide& before) {
  std::vector<int> origins;
  for (const std::string& name : n.fused_from())
    if (const int i = before.Named(name); i >= 0) origins.push_back(i);
  // Where nodes have no names, what they make has: it keeps its name through rewriting.
  if (const auto it = before.by_result.find(ResultName(n)); it != before.by_result.end())
    origins.push_back(it->second);
  std::sort(origins.begin(), origins.end());
  origins.erase(std::unique(origins.begin(), origins.end()), origins.end());
  return origins;
}

/// Pairs the nodes that are left by operator and by operands that are paired already.
class ByOperands {
 public:
  ByOperands(const RelatedSide& before, const RelatedSide& after, Relation& r)
      : before_(before), after_(after), relation_(r) {}

  void Pair() {
    std::map<std::string, std::vector<int>> waiting;  // nodes of `before`, the last first
    for (size_t i = before_.nodes.size(); i-- > 0;)
      if (relation_.same_in_after[i] < 0)
        waiting[Key(*before_.nodes[i], before_, nullptr)].push_back(static_cast<int>(i));
    for (size_t i = 0; i < after_.nodes.size(); ++i) {
      if (relation_.same_in_before[i] >= 0) continue;
      const auto it = waiting.find(Key(*after_.nodes[i], after_, &relation_.same_in_before));
      if (it == waiting.end() || it->second.empty()) continue;
      relation_.same_in_before[i] = it->second.back();
      relation_.same_in_after[static_cast<size_t>(it->second.back())] = static_cast<int>(i);
      it->second.pop_back();
    }
  }

 private:
  /// `same`: by a node of `after` its node of `before`; null: the node is of `before`.
  static std::string Key(const Node& n, const RelatedSide& side, const std::vector<int>* same) {
    std::string key = Cat(n.def().domain, "::", n.op());
    for (const Value* v : n.inputs()) {
      if (!v) {
        key += " -";
      } else if (v->is_constant()) {
        key += " c";
      } else if (const auto it = side.index.find(v->producer()); it != side.index.end()) {
        const int at = same ? (*same)[static_cast<size_t>(it->second)] : it->second;
        key += Cat(" ", at, ".", v->producer_index());
      } else {
        key += Cat(" ", v->name());
      }
    }
    return key;
  }

  const RelatedSide& before_;
  const RelatedSide& after_;
  Relation& relation_;
};

std::vector<std::string> TypeDifferences(std::string_view what, const std::vector<Value*>& before,
                                         const std::vector<Value*>& after) {
  std::vector<std::string> out;
  for (size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
    const Value* a = i < before.size() ? before[i] : nullptr;
    const Value* b = i < after.size() ? after[i] : nullptr;
    const std::string from = a ? ToString(a->type()) : "none",
                      to = b ? ToString(b->type()) : "none";
    if (from != to) out.push_back(Cat(what, " ", i, ": ", from, " -> ", to));
  }
  return out;
}

}  // namespace

std::string AttributeText(const AttrValue& value) {
  struct Text {
    std::string operator()(std::monostate) const { return "none"; }
    std::string operator()(int64_t v) const { return ElementText(v); }
    std::string operator()(float v) const { return ElementText(v); }
    std::string operator()(const std::string& v) const { return ElementText(v); }
    std::string operator()(const Tensor& v) const { return ToString(v.type()); }
    std::string operator()(const ValueType& v) const { return ToString(v); }
    std::string operator()(const std::vector<int64_t>& v) const { return ListText(v); }
    std::string operator()(const std::vector<float>& v) const { return ListText(v); }
    std::string operator()(const std::vector<std::string>& v) const { return ListText(v); }
  };
  return std::visit(Text(), value);
}

Relation Relate(const Graph& before_graph, const Graph& after_graph) {
  const RelatedSide before(before_graph), after(after_graph);
  Relation r{std::vector<int>(before.nodes.size(), -1), std::vector<int>(after.nodes.size(), -1),
             std::vector<std::vector<int>>(after.nodes.size())};
  for (size_t i = 0; i < after.nodes.size(); ++i) {
    const Node& n = *after.nodes[i];
    r.replaced[i] = OriginsOf(n, before);
    if (r.replaced[i].size() != 1 || n.fused_from().size() > 1) continue;
    const int origin = r.replaced[i][0];
    if (&before[origin].def() != &n.def() || r.same_in_after[static_cast<size_t>(origin)] >= 0)
      continue;
    r.same_in_before[i] = origin;
    r.same_in_after[static_cast<size_t>(origin)] = static_cast<int>(i);
  }
  ByOperands(before, after, r).Pair();
  for (size_t i = 0; i < after.nodes.size(); ++i) {
    if (r.same_in_before[i] >= 0) r.replaced[i].clear();
    std::erase_if(r.replaced[i],
                  [&](int b) { return r.same_in_after[static_cast<size_t>(b)] >= 0; });
  }
  return r;
}

std::vector<std::string> Differences(const Node& before, const Node& after) {
  std::vector<std::string> out;
  std::map<std::string, std::string> from, to;
  for (const auto& [name, value] : before.attrs()) from[std::string(name)] = AttributeText(value);
  for (const auto& [name, value] : after.attrs()) to[std::string(name)] = AttributeText(value);
  for (const auto& [name, text] : from) {
    const auto it = to.find(name);
    const std::string now = it == to.end() ? "default" : it->second;
    if (now != text) out.push_back(Cat("attribute ", name, ": ", text, " -> ", now));
  }
  for (const auto& [name, text] : to)
    if (!from.contains(name)) out.push_back(Cat("attribute ", name, ": default -> ", text));
  for (std::string& d : TypeDifferences("operand", before.inputs(), after.inputs()))
    out.push_back(std::move(d));
  for (std::string& d : TypeDifferences("result", before.outputs(), after.outputs()))
    out.push_back(std::move(d));
  return out;
}

}  // namespace infer
