/// Pictures of graphs: groups, wires, differences, and the places of boxes that are open.
#include "tools/graph/picture.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/strings.h"
#include "tools/graph/compose.h"
#include "tools/graph/graph_page.h"
#include "tools/graph/groups.h"
#include "tools/graph/relate.h"

namespace infer {
namespace {

const OpRegistry& Ops() {
  static const OpRegistry* ops = new OpRegistry(AllOps());
  return *ops;
}

Graph GraphOf(std::string_view text) {
  auto g = ParseGraph(text, Ops());
  EXPECT_TRUE(g.ok()) << g.status().message();
  return *std::move(g);
}

/// Labels of groups by those that they lie in: "all/block.0/ff".
std::map<std::string, int> NodesByGroup(const Picture& p) {
  std::map<std::string, int> out;
  for (const PictureNode& n : p.nodes) {
    if (!n.node) continue;
    std::string path;
    for (int g = n.group; g > 0; g = p.groups[static_cast<size_t>(g)].parent)
      path = Cat(p.groups[static_cast<size_t>(g)].label, path.empty() ? "" : " > ", path);
    ++out[path];
  }
  return out;
}

int CountOf(const Picture& p, Fate fate) {
  int count = 0;
  for (const PictureNode& n : p.nodes) count += n.fate == fate && n.node ? 1 : 0;
  return count;
}

/// No two boxes meet, but for those that hold each other; lines end at edges of boxes.
void CheckDrawing(const Picture& p, const std::vector<bool>& open) {
  const Drawing d = Compose(p, open);
  const auto contains = [](const DrawnBox& a, const DrawnBox& b) {
    return a.open && b.x >= a.x && b.y >= a.y && b.x + b.width <= a.x + a.width + 1e-6 &&
           b.y + b.height <= a.y + a.height + 1e-6;
  };
  std::set<double> lower, upper;
  for (size_t i = 0; i < d.boxes.size(); ++i) {
    const DrawnBox& a = d.boxes[i];
    EXPECT_GE(a.x, -1e-6);
    EXPECT_LE(a.x + a.width, d.width + 1e-6);
    EXPECT_LE(a.y + a.height, d.height + 1e-6);
    upper.insert(a.y);
    lower.insert(a.y + a.height);
    for (size_t k = i + 1; k < d.boxes.size(); ++k) {
      const DrawnBox& b = d.boxes[k];
      if (contains(a, b) || contains(b, a)) continue;
      const bool apart = a.x + a.width <= b.x + 1e-6 || b.x + b.width <= a.x + 1e-6 ||
                         a.y + a.height <= b.y + 1e-6 || b.y + b.height <= a.y + 1e-6;
      EXPECT_TRUE(apart) << i << " and " << k;
    }
  }
  for (const DrawnLine& l : d.lines) {
    if (l.ends) {
      EXPECT_TRUE(upper.contains(l.y1));
    }
    if (l.begins) {
      EXPECT_TRUE(lower.contains(l.y0));
    }
  }
}

constexpr const char* kScoped = R"(graph g(x: f32[2,4]) -> (y) {
  net/block.0/attn/a = Relu(x)
  net/block.0/attn/b = Sigmoid(net/block.0/attn/a)
  net/block.0/sum = Add(net/block.0/attn/b, x)
  net/block.1/a = Relu(net/block.0/sum)
  net/block.1/b = Tanh(net/block.1/a)
  net/head/only = Neg(net/block.1/b)
  y = Exp(net/head/only) })";

TEST(Picture, GroupsByScope) {
  const Graph g = GraphOf(kScoped);
  const Picture p = Draw(g);
  EXPECT_THAT(NodesByGroup(p), testing::ElementsAre(testing::Pair("", 1), testing::Pair("net", 1),
                                                    testing::Pair("net > block.0", 1),
                                                    testing::Pair("net > block.0 > attn", 2),
                                                    testing::Pair("net > block.1", 2)));
  EXPECT_EQ(p.groups[0].nodes, 7);
}

TEST(Picture, JoinsScopesThatHoldOneScope) {
  const Graph g = GraphOf(
      "graph g(x: f32[2]) -> (y) { a/b/c/r = Relu(x) a/b/c/s = Tanh(a/b/c/r) y = Neg(a/b/c/s) }");
  EXPECT_THAT(NodesByGroup(Draw(g)),
              testing::ElementsAre(testing::Pair("", 1), testing::Pair("a/b/c", 2)));
}

TEST(Picture, BringsValuesThroughPorts) {
  const Graph g = GraphOf(kScoped);
  const Picture p = Draw(g);
  for (const PictureGroup& group : p.groups) {
    if (group.label != "attn") continue;
    int in = 0, out = 0;
    for (const Child& c : group.children) {
      in += c.kind == Child::Kind::kInPort ? 1 : 0;
      out += c.kind == Child::Kind::kOutPort ? 1 : 0;
    }
    EXPECT_EQ(in, 1);
    EXPECT_EQ(out, 1);
  }
}

TEST(Picture, ComposesEveryStateOfItsGroups) {
  const Graph g = GraphOf(kScoped);
  const Picture p = Draw(g);
  ASSERT_LT(p.groups.size(), 8u);
  for (size_t state = 0; state < size_t{1} << p.groups.size(); ++state) {
    std::vector<bool> open;
    for (size_t k = 0; k < p.groups.size(); ++k) open.push_back(k == 0 || (state >> k & 1) != 0);
    CheckDrawing(p, open);
  }
}

TEST(Picture, CutsWhatIsLarge) {
  std::string text = "graph g(x: f32[4]) -> (y) { ";
  std::string last = "x";
  for (int i = 0; i < 400; ++i) {
    text += Cat("v", i, i % 3 == 2 ? " = Add(" : " = Relu(", last,
                i % 3 == 2 ? Cat(", v", i - 2) : "", ") ");
    last = Cat("v", i);
  }
  const Graph g = GraphOf(text + "y = Neg(" + last + ") }");
  const Picture p = Draw(g);
  int parts = 0, in_parts = 0;
  for (const PictureGroup& group : p.groups) {
    if (group.kind != PictureGroup::Kind::kPart) continue;
    ++parts;
    in_parts += group.nodes;
    EXPECT_LE(group.nodes, 60);
    EXPECT_GE(group.nodes, 20);
    for (const Wire& w : group.wires) EXPECT_LE(w.sinks.size(), 3u);
  }
  EXPECT_GT(parts, 5);
  EXPECT_EQ(in_parts, 401);
  CheckDrawing(p, OpenAtFirst(p, 90));
  CheckDrawing(p, std::vector<bool>(p.groups.size(), true));
}

TEST(Picture, ShowsBodies) {
  const Graph g = GraphOf(R"(graph g(c: bool[], x: f32[2]) -> (y) {
    y = If(c) [x] {then_branch=graph(v) -> (r) { r = Relu(v) }, else_branch=graph(v) -> (r) { s = Tanh(v) r = Neg(s) }} })");
  const Picture p = Draw(g);
  EXPECT_THAT(NodesByGroup(p),
              testing::ElementsAre(testing::Pair("", 1), testing::Pair("If > else_branch", 2),
                                   testing::Pair("If > then_branch", 1)));
  CheckDrawing(p, std::vector<bool>(p.groups.size(), true));
}

TEST(Picture, TellsWhatChanged) {
  const Graph before = GraphOf(
      "graph g(x: f32[2,3]) -> (y) { s = Sigmoid(x) m = Mul(x, s) y = Softmax(m) {axis=1} }");
  const Graph after =
      GraphOf("graph g(x: f32[2,3]) -> (y) { m = infer::Silu(x) y = Softmax(m) {axis=0} }");
  const Picture p = DrawDiff(before, after);
  EXPECT_EQ(CountOf(p, Fate::kRemoved), 2);
  EXPECT_EQ(CountOf(p, Fate::kAdded), 1);
  EXPECT_EQ(CountOf(p, Fate::kChanged), 1);
  for (const PictureNode& n : p.nodes)
    if (n.fate == Fate::kChanged) {
      EXPECT_THAT(n.news, testing::ElementsAre("attribute axis: 1 -> 0"));
    }
  CheckDrawing(p, std::vector<bool>(p.groups.size(), true));
}

TEST(Picture, SameGraphsDoNotDiffer) {
  const Graph g = GraphOf(kScoped);
  const Graph copy = g.Clone();
  const Picture p = DrawDiff(g, copy);
  EXPECT_EQ(CountOf(p, Fate::kSame), 7);
  EXPECT_EQ(p.nodes.size(), Draw(g).nodes.size());
  EXPECT_EQ(p.values.size(), Draw(g).values.size());
}

TEST(Relate, FindsNodesWithoutNamesInCommon) {
  const Graph before = GraphOf("graph g(x: f32[2]) -> (y) { a = Relu(x) b = Tanh(a) y = Neg(b) }");
  const Graph after =
      GraphOf("graph g(x: f32[2]) -> (y) { p = Relu(x) q = Tanh(p) i = Exp(q) y = Neg(i) }");
  const Relation r = Relate(before, after);
  EXPECT_THAT(r.same_in_before, testing::ElementsAre(0, 1, -1, 2));
}

TEST(GraphPage, SvgHoldsNamesAsText) {
  const Graph g = GraphOf("graph g(x: f32[2]) -> (y) { a = Relu(x) y = Neg(a) }");
  const std::string svg = ToSvg({.title = "<m> & \"n\"", .graph = g});
  EXPECT_THAT(svg, testing::HasSubstr("&lt;m&gt; &amp; &quot;n&quot;"));
  EXPECT_THAT(svg, testing::HasSubstr(">Relu</text>"));
  EXPECT_THAT(svg, testing::HasSubstr("f32[2]"));
}

}  // namespace
}  // namespace infer
