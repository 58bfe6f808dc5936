#include "tools/graph/compose.h"

#include <algorithm>
#include <map>
#include <utility>

namespace infer {
namespace {

constexpr double kRowGap = 42, kPortGap = 14, kHead = 30, kSide = 18, kFoot = 14;

class Composer {
 public:
  Composer(const Picture& p, const std::vector<bool>& open)
      : picture_(p), open_(open), levels_(p.groups.size()) {}

  Drawing Run() {
    Measure(0);
    PlaceLevel(0, 0, 0, 0);
    drawing_.width = levels_[0].width;
    drawing_.height = levels_[0].height;
    return std::move(drawing_);
  }

 private:
  struct Level {
    std::vector<std::vector<double>> x;  // of places, as PictureGroup::rows
    std::vector<double> y, heights;      // of rows
    double width = 0, height = 0;
    std::map<std::pair<Child::Kind, int>, double> ports;  // x of a value that comes in or goes out
  };

  const PictureGroup& Group(int g) const { return picture_.groups[static_cast<size_t>(g)]; }
  Level& Of(int g) { return levels_[static_cast<size_t>(g)]; }
  const Child& ChildAt(int g, int i) const { return Group(g).children[static_cast<size_t>(i)]; }
  bool IsOpen(const Child& c) const {
    return c.kind == Child::Kind::kGroup && open_[static_cast<size_t>(c.index)];
  }
  static bool IsPort(const Child& c) {
    return c.kind == Child::Kind::kInPort || c.kind == Child::Kind::kOutPort;
  }

  double Width(const Child& c) { return IsOpen(c) ? Of(c.index).width : WidthOf(picture_, c); }
  double Height(const Child& c) { return IsOpen(c) ? Of(c.index).height : HeightOf(picture_, c); }

  void Measure(int g) {
    for (const Child& c : Group(g).children)
      if (IsOpen(c)) Measure(c.index);
    Level& level = Of(g);
    const Rows& rows = Group(g).rows;
    double left = 0, right = 0;
    bool any = false;
    for (const auto& row : rows) {
      level.x.push_back(PlacesOf(g, row));
      for (size_t i = 0; i < row.size(); ++i) {
        const double half = row[i].box < 0 ? 0 : Width(ChildAt(g, row[i].box)) / 2;
        left = any ? std::min(left, level.x.back()[i] - half) : level.x.back()[i] - half;
        right = any ? std::max(right, level.x.back()[i] + half) : level.x.back()[i] + half;
        any = true;
      }
    }
    const double head = g == 0 ? kSide : kHead, least = g == 0 ? 0 : WidthOfHead(g);
    const double more = std::max(0.0, least - (right - left) - 2 * kSide) / 2;
    for (auto& row : level.x)
      for (double& x : row) x += kSide + more - left;
    level.width = right - left + 2 * (kSide + more);
    GiveHeights(g, head);
  }

  double WidthOfHead(int g) const { return WidthOf(picture_, {Child::Kind::kGroup, g}); }

  /// As laid out with all groups closed; rows with an open group make room for it.
  std::vector<double> PlacesOf(int g, const std::vector<Place>& row) {
    std::vector<double> wanted, weights, distances;
    bool is_open = false;
    for (size_t i = 0; i < row.size(); ++i) {
      wanted.push_back(row[i].x);
      weights.push_back(1);
      const auto width = [&](const Place& p) { return p.box < 0 ? 0 : Width(ChildAt(g, p.box)); };
      if (row[i].box >= 0) is_open |= IsOpen(ChildAt(g, row[i].box));
      if (i > 0)
        distances.push_back(DistanceOf(row[i - 1], width(row[i - 1]), row[i], width(row[i])));
    }
    return is_open ? SpreadOut(wanted, weights, distances) : wanted;
  }

  void GiveHeights(int g, double head) {
    Level& level = Of(g);
    const Rows& rows = Group(g).rows;
    double y = head;
    for (size_t r = 0; r < rows.size(); ++r) {
      double height = 0;
      bool ports = !rows[r].empty();
      for (size_t i = 0; i < rows[r].size(); ++i) {
        const int box = rows[r][i].box;
        const bool is_port = box >= 0 && IsPort(ChildAt(g, box));
        ports &= is_port;
        if (box < 0) continue;
        height = std::max(height, Height(ChildAt(g, box)));
        if (is_port) level.ports[{ChildAt(g, box).kind, ChildAt(g, box).index}] = level.x[r][i];
      }
      if (ports && r == 0) {  // at the upper edge
        level.y.push_back(0);
        y = head + kPortGap;
      } else {
        if (ports) y += kPortGap - kRowGap;
        level.y.push_back(y);
        y += height + kRowGap;
      }
      level.heights.push_back(height);
    }
    level.height = y - (rows.empty() ? 0 : kRowGap) + kFoot;
    // Values go out at the lower edge.
    if (!rows.empty() && !rows.back().empty() && rows.back()[0].box >= 0 &&
        ChildAt(g, rows.back()[0].box).kind == Child::Kind::kOutPort)
      level.y.back() = level.height;
  }

  struct End {
    double x, top;
    double edge;    ///< lower edge of the box
    double bottom;  ///< of its row
  };
  /// Where lines reach and leave a place; x and y are of the level's corner.
  End EndOf(int g, size_t r, size_t i, double x, double y) {
    const Level& level = Of(g);
    const Place& place = Group(g).rows[r][i];
    const double at = x + level.x[r][i], top = y + level.y[r];
    if (place.box < 0) return {at, top, top + level.heights[r], top + level.heights[r]};
    const Child& c = ChildAt(g, place.box);
    if (IsPort(c)) return {at, top, top, top};
    return {at, top, top + Height(c), top + level.heights[r]};
  }
  /// The x at which a value passes the edge of an open group, else the middle.
  double PortOf(const Child& c, Child::Kind kind, int value, double middle) {
    if (!IsOpen(c)) return middle;
    const auto it = Of(c.index).ports.find({kind, value});
    return it == Of(c.index).ports.end() ? middle : middle - Of(c.index).width / 2 + it->second;
  }

  void PlaceLevel(int g, double x, double y, int depth) {
    const Rows& rows = Group(g).rows;
    const Level& level = Of(g);
    for (size_t r = 0; r < rows.size(); ++r)
      for (size_t i = 0; i < rows[r].size(); ++i) {
        if (rows[r][i].box < 0) continue;
        const Child& c = ChildAt(g, rows[r][i].box);
        if (IsPort(c)) continue;
        const double left = x + level.x[r][i] - Width(c) / 2, top = y + level.y[r];
        drawing_.boxes.push_back(
            {c.kind, c.index, left, top, Width(c), Height(c), IsOpen(c), depth});
        if (IsOpen(c)) PlaceLevel(c.index, left, top, depth + 1);
      }
    PlaceLines(g, x, y);
  }

  struct At {
    size_t row, place;
  };
  void PlaceLines(int g, double x, double y) {
    const PictureGroup& group = Group(g);
    std::vector<At> of_box(group.children.size());
    std::vector<std::vector<At>> bends(group.wires.size());  // from top to bottom
    for (size_t r = 0; r < group.rows.size(); ++r)
      for (size_t i = 0; i < group.rows[r].size(); ++i) {
        const Place& p = group.rows[r][i];
        if (p.box >= 0)
          of_box[static_cast<size_t>(p.box)] = {r, i};
        else
          bends[static_cast<size_t>(p.wire)].push_back({r, i});
      }
    for (size_t w = 0; w < group.wires.size(); ++w)
      PlaceWire(g, group.wires[w], group.values[w], of_box, bends[w], x, y);
  }

  void PlaceWire(int g, const Wire& wire, int value, const std::vector<At>& of_box,
                 const std::vector<At>& bends, double x, double y) {
    const At from = of_box[static_cast<size_t>(wire.source)];
    const Child& source = ChildAt(g, wire.source);
    End above = EndOf(g, from.row, from.place, x, y);
    above.x = PortOf(source, Child::Kind::kOutPort, value, above.x);
    const bool begins = !IsPort(source), beside = above.bottom > above.edge + 1;
    if (beside)  // down past a higher neighbour
      drawing_.lines.push_back({above.x, above.edge, above.x, above.bottom, value, false, begins});
    std::vector<End> trunk = {above};
    for (const At& b : bends) trunk.push_back(EndOf(g, b.row, b.place, x, y));
    for (size_t i = 1; i < trunk.size(); ++i) {
      drawing_.lines.push_back({trunk[i - 1].x, trunk[i - 1].bottom, trunk[i].x, trunk[i].top,
                                value, false, i == 1 && begins && !beside});
      if (trunk[i].bottom > trunk[i].top)
        drawing_.lines.push_back({trunk[i].x, trunk[i].top, trunk[i].x, trunk[i].bottom, value});
    }
    for (const int s : wire.sinks) {
      const At to = of_box[static_cast<size_t>(s)];
      const Child& sink = ChildAt(g, s);
      End below = EndOf(g, to.row, to.place, x, y);
      below.x = PortOf(sink, Child::Kind::kInPort, value, below.x);
      // A wire without bends goes straight, one that closes a cycle goes up.
      const size_t rows = to.row > from.row ? to.row - from.row : 0;
      const End& last = rows > 0 && rows <= trunk.size() ? trunk[rows - 1] : trunk[0];
      drawing_.lines.push_back({last.x, last.bottom, below.x, below.top, value, !IsPort(sink),
                                &last == &trunk[0] && begins && !beside});
    }
  }

  const Picture& picture_;
  const std::vector<bool>& open_;
  std::vector<Level> levels_;
  Drawing drawing_;
};

}  // namespace

Drawing Compose(const Picture& p, const std::vector<bool>& open) { return Composer(p, open).Run(); }

std::vector<bool> OpenAtFirst(const Picture& p, size_t most_boxes) {
  std::vector<bool> open(p.groups.size(), false);
  open[0] = true;
  const auto boxes = [&](int g) {
    return static_cast<size_t>(
        std::count_if(p.groups[static_cast<size_t>(g)].children.begin(),
                      p.groups[static_cast<size_t>(g)].children.end(), [](const Child& c) {
                        return c.kind == Child::Kind::kNode || c.kind == Child::Kind::kGroup;
                      }));
  };
  size_t shown = boxes(0);
  std::vector<int> level = {0};
  while (!level.empty()) {
    std::vector<int> inner;
    for (const int g : level)
      for (const Child& c : p.groups[static_cast<size_t>(g)].children)
        if (c.kind == Child::Kind::kGroup) inner.push_back(c.index);
    // The smallest first; what stays closed hides what it holds.
    std::stable_sort(inner.begin(), inner.end(), [&](int a, int b) { return boxes(a) < boxes(b); });
    level.clear();
    for (const int g : inner) {
      if (p.groups[static_cast<size_t>(g)].kind == PictureGroup::Kind::kReplaced) continue;
      if (shown + boxes(g) > most_boxes) break;
      shown += boxes(g);
      open[static_cast<size_t>(g)] = true;
      level.push_back(g);
    }
  }
  return open;
}

}  // namespace infer
