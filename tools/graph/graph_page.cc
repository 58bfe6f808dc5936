#include "tools/graph/graph_page.h"

#include <cmath>
#include <string_view>
#include <unordered_map>

#include "lib/ir/op_name.h"
#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tools/common/html_page.h"
#include "tools/common/model_options.h"
#include "tools/common/version.h"
#include "tools/graph/compose.h"
#include "tools/graph/picture.h"
#include "tools/graph/relate.h"

namespace infer {

std::string GraphPageTemplate();  // made of page/graph.html, its styles and its scripts

namespace {

constexpr std::string_view kDataMark = "GRAPH_PAGE_DATA";
constexpr size_t kMostBoxesAtFirst = 90;
constexpr size_t kMostConstants = 64, kMostPartners = 64;  // of a node

/// The node with extents for each node without, in bodies, too.
using SizedNodes = std::unordered_map<const Node*, const Node*>;
void Match(const Graph& g, const Graph& sized, SizedNodes& out) {
  auto at = sized.nodes().begin();
  for (const auto& n : g.nodes()) {
    if (at == sized.nodes().end()) return;
    out[n.get()] = at->get();
    for (size_t i = 0; i < std::min(n->subgraphs().size(), (*at)->subgraphs().size()); ++i)
      Match(*n->subgraphs()[i].second, *(*at)->subgraphs()[i].second, out);
    ++at;
  }
}

/// A graph with what is known of its nodes.
struct SizedGraph {
  OpenExtents extents;  // filled while the graph is made
  Graph graph;
  SizedNodes nodes;
  explicit SizedGraph(const Graph& g) : graph(WithFoundExtents(g, &extents)) {
    Match(g, graph, nodes);
  }
};

int64_t Whole(double v) { return std::llround(v); }

class PageData {
 public:
  explicit PageData(const GraphPage& page)
      : page_(page),
        picture_(page.before ? DrawDiff(*page.before, page.graph) : Draw(page.graph)),
        after_(page.graph) {
    if (page.before) before_.emplace(*page.before);
  }

  Json Take() {
    Json data = {{"title", page_.title},
                 {"version", kVersion},
                 {"extents", after_.extents},
                 {"has_times", page_.overlay.has_times || page_.before_overlay.has_times}};
    if (page_.before) data["before"] = page_.before_title;
    data["nodes"] = Json::array();
    for (const PictureNode& n : picture_.nodes) data["nodes"].push_back(NodeJson(n));
    data["values"] = Json::array();
    for (const PictureValue& v : picture_.values)
      data["values"].push_back(
          {v.value->name(), ToString(v.value->type()), static_cast<int>(v.fate)});
    data["groups"] = Json::array();
    for (size_t g = 0; g < picture_.groups.size(); ++g) data["groups"].push_back(GroupJson(g));
    data["open"] = Json::array();
    const std::vector<bool> open = OpenAtFirst(picture_, kMostBoxesAtFirst);
    for (size_t g = 0; g < open.size(); ++g)
      if (open[g]) data["open"].push_back(g);
    return data;
  }

 private:
  /// Keys are letters, since thousands of nodes repeat them; page/model.js says what they are.
  Json NodeJson(const PictureNode& n) {
    Json j = {{"k", static_cast<int>(n.kind)}, {"l", n.label}, {"g", n.group}};
    if (!n.detail.empty()) j["d"] = n.detail;
    if (n.fate != Fate::kSame) j["s"] = static_cast<int>(n.fate);
    if (!n.partners.empty())
      j["x"] = std::vector<int>(
          n.partners.begin(),
          n.partners.begin() + static_cast<ptrdiff_t>(std::min(n.partners.size(), kMostPartners)));
    if (!n.news.empty()) j["w"] = n.news;
    if (n.bodies >= 0) j["y"] = n.bodies;
    if (!n.reads.empty()) j["i"] = n.reads;
    if (!n.makes.empty()) j["u"] = n.makes;
    if (n.node) {
      AddOperator(*n.node, n.fate == Fate::kRemoved, j);
    } else {
      j["n"] = n.value->name();
      j["t"] = ToString(n.value->type());
    }
    return j;
  }

  void AddOperator(const Node& n, bool is_removed, Json& j) {
    j["o"] = FullOpName(n.def().domain, n.op());
    j["n"] = n.name();
    j["c"] = static_cast<int>(ColourOf(n));
    Json attrs = Json::object(), constants = Json::array();
    for (const auto& [name, value] : n.attrs()) attrs[name] = AttributeText(value);
    for (const Value* v : n.inputs())
      if (v && v->is_constant() && constants.size() < kMostConstants)
        constants.push_back({v->name(), ToString(v->type())});
    if (!attrs.empty()) j["a"] = std::move(attrs);
    if (!constants.empty()) j["q"] = std::move(constants);
    if (n.fused_from().size() > 1) j["f"] = n.fused_from();
    SizedGraph& side = is_removed && before_ ? *before_ : after_;
    const auto sized = side.nodes.find(&n);
    const NodeFacts f =
        FactsOf(n, sized == side.nodes.end() ? nullptr : sized->second, side.graph.ops(),
                is_removed ? page_.before_overlay : page_.overlay);
    if (f.flops >= 0) j["F"] = f.flops;
    if (f.bytes_moved >= 0) j["B"] = f.bytes_moved;
    if (f.parameters > 0) j["P"] = f.parameters;
    if (f.ms) j["M"] = *f.ms;
    if (f.sqnr_db) j["E"] = JsonNumber(*f.sqnr_db);
    if (!f.precision.empty()) j["R"] = f.precision;
    if (!f.kernel.empty()) j["K"] = f.kernel;
  }

  Json GroupJson(size_t g) const {
    const PictureGroup& group = picture_.groups[g];
    Json children = Json::array(), wires = Json::array(), rows = Json::array();
    Json widths = Json::array();
    for (const Child& c : group.children) {
      children.push_back(static_cast<int>(c.kind));
      children.push_back(c.index);
      widths.push_back(Whole(WidthOf(picture_, c)));
    }
    for (size_t w = 0; w < group.wires.size(); ++w) {
      Json wire = {group.values[w], group.wires[w].source};
      for (const int s : group.wires[w].sinks) wire.push_back(s);
      wires.push_back(std::move(wire));
    }
    for (const auto& row : group.rows) {
      Json places = Json::array();
      for (const Place& p : row) {
        places.push_back(p.box >= 0 ? p.box : -1 - p.wire);
        places.push_back(Whole(p.x));
      }
      rows.push_back(std::move(places));
    }
    Json j = {{"k", static_cast<int>(group.kind)},
              {"l", group.label},
              {"p", group.parent},
              {"n", group.nodes},
              {"c", children},
              {"z", widths},
              {"w", wires},
              {"r", rows}};
    if (group.node >= 0) j["o"] = group.node;
    return j;
  }

  const GraphPage& page_;
  Picture picture_;
  SizedGraph after_;
  std::optional<SizedGraph> before_;
};

}  // namespace

std::string ToHtml(const GraphPage& page) {
  return PageWithData(GraphPageTemplate(), kDataMark, PageData(page).Take());
}

Status CheckGraphPath(const std::string& path) {
  for (const char* end : {".html", ".htm", ".svg"})
    if (path.ends_with(end)) return {};
  return InvalidArgument(
      Cat("--graph: '", path, "' ends neither in .html (a page) nor in .svg (an image)"));
}

Status WriteGraph(const std::string& path, const GraphPage& page) {
  return WriteFileAtomically(path, path.ends_with(".svg") ? ToSvg(page) : ToHtml(page));
}

}  // namespace infer
