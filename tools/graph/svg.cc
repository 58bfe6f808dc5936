#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/graph/compose.h"
#include "tools/graph/graph_page.h"

namespace infer {
namespace {

constexpr size_t kMostBoxesInSvg = 400;
constexpr double kMargin = 16, kTitle = 34, kLegend = 26;

/// Colours as in tools/common/page/design.css; the strip of a box says the kind of operator.
constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --page: #fff; --text: #1b1f24; --quiet: #59636e; --line: #8a949e; --box: #f6f8fa;
  --edge: #aeb8c2; --group: #eef2f6; --c0: #0072b2; --c1: #a0529a; --c2: #008a63; --c3: #7b8794; --c4: #c77700;
  --c5: #2a9bd6; --gone: #b84a00; --new: #0061a4; --other: #7a5a9a; }
@media (prefers-color-scheme: dark) { :root { --page: #0f1419; --text: #e6e9ec; --quiet: #9aa4ae; --line: #6b7681;
  --box: #1b222a; --edge: #47525d; --group: #151b22; --c0: #4aa3e0; --c1: #cc79a7; --c2: #2fbf95; --c3: #93a0ac;
  --c4: #e69f00; --c5: #7cc7f0; --gone: #f0883e; --new: #58a6ff; --other: #bc8cff; } }
text { font: 12.5px system-ui, sans-serif; fill: var(--text); }
.small { font-size: 11px; fill: var(--quiet); }
.type { font-size: 10px; fill: var(--quiet); paint-order: stroke; stroke: var(--page); stroke-width: 3px; }
.title { font-size: 16px; font-weight: 600; }
.box { fill: var(--box); stroke: var(--edge); }
.group { fill: var(--group); stroke: var(--edge); stroke-dasharray: none; }
.wire { fill: none; stroke: var(--line); stroke-width: 1.3; }
.arrow { fill: var(--line); }
.s2 .box, .s2 .group { stroke: var(--gone); stroke-width: 1.8; stroke-dasharray: 5 3; }
.s3 .box { stroke: var(--new); stroke-width: 2.2; }
.s1 .box { stroke: var(--other); stroke-width: 1.8; }
.wire.s2 { stroke: var(--gone); stroke-dasharray: 5 3; }
.wire.s3 { stroke: var(--new); stroke-width: 1.8; }
)css";

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : Printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string Px(double v) { return Cat(std::round(v * 10) / 10); }

std::string Text(double x, double y, std::string_view style, std::string_view anchor,
                 std::string_view text) {
  return Cat("<text x=\"", Px(x), "\" y=\"", Px(y), "\"",
             style.empty() ? "" : Cat(" class=\"", style, "\""),
             anchor.empty() ? "" : Cat(" text-anchor=\"", anchor, "\""), ">", Escaped(text),
             "</text>\n");
}

std::string RectText(std::string_view style, double x, double y, double w, double h, double round) {
  return Cat("<rect class=\"", style, "\" x=\"", Px(x), "\" y=\"", Px(y), "\" width=\"", Px(w),
             "\" height=\"", Px(h), "\" rx=\"", Px(round), "\"/>\n");
}

std::string_view SignOf(Fate fate) {
  switch (fate) {
    case Fate::kSame: break;
    case Fate::kChanged: return "~ ";
    case Fate::kRemoved: return "− ";
    case Fate::kAdded: return "+ ";
  }
  return "";
}

std::string NodeText(const PictureNode& n, const DrawnBox& b) {
  const double middle = b.x + b.width / 2;
  std::string out = Cat("<g class=\"s", static_cast<int>(n.fate), "\">");
  const std::string name =
      n.node ? n.node->name() : Cat(n.value->name(), ": ", ToString(n.value->type()));
  out += Cat("<title>", Escaped(name), "</title>\n");
  if (n.kind != PictureNode::Kind::kOperator) {
    out += RectText("box", b.x, b.y, b.width, b.height, b.height / 2);
    return Cat(out,
               Text(middle, b.y + b.height / 2 + 4, "", "middle", Cat(SignOf(n.fate), n.label)),
               "</g>\n");
  }
  out += RectText("box", b.x, b.y, b.width, b.height, 5);
  out += Cat("<rect x=\"", Px(b.x + 3), "\" y=\"", Px(b.y + 4), "\" width=\"4\" height=\"",
             Px(b.height - 8), "\" rx=\"2\" fill=\"var(--c", static_cast<int>(ColourOf(*n.node)),
             ")\"/>\n");
  const double line = n.detail.empty() ? b.y + b.height / 2 + 4.5 : b.y + 18;
  out += Text(middle + 3, line, "", "middle", Cat(SignOf(n.fate), n.label));
  if (!n.detail.empty()) out += Text(middle + 3, b.y + 33, "small", "middle", n.detail);
  return out + "</g>\n";
}

std::string GroupText(const PictureGroup& g, const DrawnBox& b) {
  const Fate fate = g.kind == PictureGroup::Kind::kReplaced ? Fate::kRemoved : Fate::kSame;
  std::string out = Cat("<g class=\"s", static_cast<int>(fate), "\">\n");
  out += RectText("group", b.x, b.y, b.width, b.height, 8);
  if (b.open) return Cat(out, Text(b.x + 10, b.y + 18, "small", "", g.label), "</g>\n");
  out += RectText("group", b.x + 3, b.y + 3, b.width - 6, b.height - 6, 6);
  out += Text(b.x + b.width / 2, b.y + 21, "", "middle", Cat(SignOf(fate), g.label));
  out += Text(b.x + b.width / 2, b.y + 37, "small", "middle", Cat(g.nodes, " nodes"));
  return out + "</g>\n";
}

std::string LineText(const Picture& p, const DrawnLine& l) {
  const PictureValue& v = p.values[static_cast<size_t>(l.value)];
  const double bend = std::max(12.0, std::fabs(l.y1 - l.y0) / 2);
  std::string out =
      Cat("<path class=\"wire s", static_cast<int>(v.fate), "\" d=\"M", Px(l.x0), " ", Px(l.y0));
  if (l.x0 == l.x1)
    out += Cat("V", Px(l.y1));
  else
    out += Cat("C", Px(l.x0), " ", Px(l.y0 + bend), " ", Px(l.x1), " ", Px(l.y1 - bend), " ",
               Px(l.x1), " ", Px(l.y1));
  out += "\"/>\n";
  if (l.ends)
    out += Cat("<path class=\"arrow\" d=\"M", Px(l.x1), " ", Px(l.y1), "l-3.5 -6h7z\"/>\n");
  return out;
}

/// The type of each value where it begins, unless another stands there.
std::string TypesText(const Picture& p, const Drawing& d) {
  std::string out;
  std::map<double, double> right;  // where the last text of a row ends
  std::vector<const DrawnLine*> begin;
  std::set<int> values;  // where they are made, not where they leave groups
  for (const DrawnLine& l : d.lines)
    if (l.begins && values.insert(l.value).second) begin.push_back(&l);
  std::stable_sort(begin.begin(), begin.end(),
                   [](const DrawnLine* a, const DrawnLine* b) { return a->x0 < b->x0; });
  for (const DrawnLine* l : begin) {
    const std::string type = ToString(p.values[static_cast<size_t>(l->value)].value->type());
    const auto [row, is_new] = right.try_emplace(l->y0, 0);
    if (!is_new && row->second > l->x0) continue;
    row->second = l->x0 + 8 + 5.4 * static_cast<double>(type.size());
    out += Text(l->x0 + 5, l->y0 + 12, "type", "", type);
  }
  return out;
}

std::string LegendText(bool is_diff, double y) {
  constexpr std::string_view kKinds[] = {"products",      "statistics",   "element by element",
                                         "moves, shapes", "codes, types", "other"};
  std::string out;
  double x = kMargin;
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    out += Cat("<rect x=\"", Px(x), "\" y=\"", Px(y - 9),
               "\" width=\"10\" height=\"10\" rx=\"2\" "
               "fill=\"var(--c",
               i, ")\"/>\n");
    out += Text(x + 14, y, "small", "", kKinds[i]);
    x += 30 + 6 * static_cast<double>(kKinds[i].size());
  }
  if (is_diff) out += Text(x, y, "small", "", "+ added   − removed   ~ changed");
  return out;
}

}  // namespace

std::string ToSvg(const GraphPage& page) {
  const Picture p = page.before ? DrawDiff(*page.before, page.graph) : Draw(page.graph);
  const Drawing d = Compose(p, OpenAtFirst(p, kMostBoxesInSvg));
  const std::string title = page.before ? Cat(page.before_title, " → ", page.title) : page.title;
  const double legend = page.before ? 820 : 600;
  const double width =
      std::max({d.width + 2 * kMargin, legend, 40 + 9.0 * static_cast<double>(title.size())});
  const double height = d.height + kTitle + kLegend + kMargin;
  std::string out =
      Cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", Px(width), " ", Px(height),
          "\" width=\"", Px(width), "\" height=\"", Px(height), "\" role=\"img\">\n<title>",
          Escaped(title), "</title>\n<style>", kStyle, "</style>\n");
  out += Cat("<rect width=\"100%\" height=\"100%\" fill=\"var(--page)\"/>\n");
  out += Text(kMargin, 24, "title", "", title);
  out += LegendText(page.before != nullptr, 46);
  out += Cat("<g transform=\"translate(", Px((width - d.width) / 2), " ", Px(kTitle + kLegend),
             ")\">\n");
  for (const DrawnBox& b : d.boxes)
    if (b.open) out += GroupText(p.groups[static_cast<size_t>(b.index)], b);
  for (const DrawnLine& l : d.lines) out += LineText(p, l);
  out += TypesText(p, d);
  for (const DrawnBox& b : d.boxes)
    if (!b.open)
      out += b.kind == Child::Kind::kNode ? NodeText(p.nodes[static_cast<size_t>(b.index)], b)
                                          : GroupText(p.groups[static_cast<size_t>(b.index)], b);
  return out + "</g>\n</svg>\n";
}

}  // namespace infer
