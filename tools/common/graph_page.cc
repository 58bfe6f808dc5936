#include "tools/common/graph_page.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/html_page.h"
#include "tools/common/report.h"

namespace infer {

std::string_view GraphPageTemplate();  // made from graph_page.html

namespace {

constexpr std::string_view kDataMark = "GRAPH_PAGE_DATA";
constexpr size_t kMaxListed = 16;  // numbers of a list

std::string NumberText(int64_t v) { return Cat(v); }
std::string NumberText(float v) { return Rounded(static_cast<double>(v), 6); }
std::string NumberText(const std::string& v) { return Cat("\"", v, "\""); }

template <typename T>
std::string ListText(const std::vector<T>& values) {
  std::vector<std::string> out;
  for (const T& v : values) {
    if (out.size() == kMaxListed) {
      out.push_back("...");
      break;
    }
    out.push_back(NumberText(v));
  }
  return Cat("[", Join(out, ", "), "]");
}

std::string AttrText(const AttrValue& value) {
  struct Text {
    std::string operator()(std::monostate) const { return "none"; }
    std::string operator()(int64_t v) const { return NumberText(v); }
    std::string operator()(float v) const { return NumberText(v); }
    std::string operator()(const std::string& v) const { return NumberText(v); }
    std::string operator()(const Tensor& v) const { return ToString(v.type()); }
    std::string operator()(const ValueType& v) const { return ToString(v); }
    std::string operator()(const std::vector<int64_t>& v) const { return ListText(v); }
    std::string operator()(const std::vector<float>& v) const { return ListText(v); }
    std::string operator()(const std::vector<std::string>& v) const { return ListText(v); }
  };
  return std::visit(Text(), value);
}

const Value* FirstResult(const Node& n) {
  for (const Value* v : n.outputs())
    if (v) return v;
  return nullptr;
}
std::string ResultName(const Node& n) {
  const Value* v = FirstResult(n);
  return v ? v->name() : "";
}

struct PageSide {
  std::vector<const Node*> nodes;
  std::unordered_map<const Node*, size_t> index;
  std::unordered_map<std::string, std::vector<size_t>> by_name;  // of the node
  std::unordered_map<std::string, size_t> by_result;
  std::vector<std::string> state;
  std::vector<std::vector<size_t>> partners;
  std::vector<int64_t> block;
  std::vector<std::string> blocks;  // labels

  explicit PageSide(const Graph& g) {
    for (const auto& n : g.nodes()) {
      const size_t i = nodes.size();
      index[n.get()] = i;
      if (!n->name().empty()) by_name[n->name()].push_back(i);
      by_result.emplace(ResultName(*n), i);
      nodes.push_back(n.get());
    }
    state.resize(nodes.size());
    partners.resize(nodes.size());
    block.assign(nodes.size(), -1);
  }
};

/// Which nodes of `before` a node of `after` stands for.
std::vector<size_t> Origins(const Node& n, const PageSide& before) {
  std::vector<size_t> origins;
  for (const std::string& name : n.fused_from())
    if (const auto it = before.by_name.find(name);
        it != before.by_name.end() && it->second.size() == 1)
      origins.push_back(it->second[0]);
  // Where nodes have no names, what they make has: it keeps its name through rewriting.
  if (const auto it = before.by_result.find(ResultName(n)); it != before.by_result.end())
    origins.push_back(it->second);
  std::sort(origins.begin(), origins.end());
  origins.erase(std::unique(origins.begin(), origins.end()), origins.end());
  return origins;
}

void Relate(PageSide& before, PageSide& after) {
  for (std::string& s : before.state) s = "removed";
  for (size_t i = 0; i < after.nodes.size(); ++i) {
    const Node& n = *after.nodes[i];
    const std::vector<size_t> origins = Origins(n, before);
    const bool kept = origins.size() == 1 && n.fused_from().size() <= 1 &&
                      &before.nodes[origins[0]]->def() == &n.def();
    after.state[i] = kept ? "kept" : "added";
    if (kept) before.state[origins[0]] = "kept";
    after.partners[i] = origins;
    for (size_t b : origins) before.partners[b].push_back(i);
    if (origins.size() < 2) continue;
    const auto taken = [&](size_t b) { return before.block[b] >= 0; };
    if (std::any_of(origins.begin(), origins.end(), taken)) continue;
    for (size_t b : origins) before.block[b] = static_cast<int64_t>(before.blocks.size());
    before.blocks.emplace_back(n.op());
  }
}

Json ToJson(const PageSide& side, const NodeTimes& times) {
  Json nodes = Json::array();
  double total = 0;
  for (size_t i = 0; i < side.nodes.size(); ++i) {
    const Node& n = *side.nodes[i];
    Json attrs = Json::object(), inputs = Json::array(), outputs = Json::array();
    for (const auto& [name, value] : n.attrs()) attrs[name] = AttrText(value);
    for (const auto& [name, sub] : n.subgraphs())
      attrs[name] = Cat("graph of ", sub->total_nodes(), " nodes");
    for (const Value* v : n.inputs()) {
      if (!v) continue;
      const auto from = v->producer() ? side.index.find(v->producer()) : side.index.end();
      inputs.push_back({from == side.index.end() ? int64_t{-1} : static_cast<int64_t>(from->second),
                        v->name(), ToString(v->type()), v->is_constant() ? 1 : 0});
    }
    for (const Value* v : n.outputs())
      if (v) outputs.push_back({v->name(), ToString(v->type())});
    Json j = {{"o", n.op()},
              {"d", n.def().domain},
              {"n", n.name()},
              {"f", n.fused_from()},
              {"a", std::move(attrs)},
              {"i", std::move(inputs)},
              {"u", std::move(outputs)}};
    j["s"] = side.state[i];
    j["b"] = side.block[i];
    j["l"] = side.partners[i];
    if (const auto it = times.find(ResultName(n)); it != times.end()) {
      j["t"] = it->second;
      total += it->second;
    }
    nodes.push_back(std::move(j));
  }
  Json out = {{"nodes", std::move(nodes)}, {"blocks", side.blocks}};
  if (!times.empty()) out["ms"] = total;
  return out;
}

}  // namespace

std::string ToHtml(const GraphPage& page) {
  PageSide before(page.before), after(page.after);
  Relate(before, after);
  const Json data = {{"title", page.title},
                     {"before", ToJson(before, page.before_ms)},
                     {"after", ToJson(after, page.after_ms)}};
  return PageWithData(GraphPageTemplate(), kDataMark, data);
}

}  // namespace infer
