#include <algorithm>
#include <limits>
#include <unordered_map>

#include "tools/graph/groups.h"

namespace infer {
namespace {

constexpr double kLetter = 6.9, kSmallLetter = 5.9;  // of 12.5 and 11 pixels, roughly
constexpr double kLeastWidth = 92, kMostWidth = 210;

/// Bytes of UTF-8 that begin a character.
double Letters(const std::string& text) {
  return static_cast<double>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Finds the wires of each group, value by value.
class Wiring {
 public:
  explicit Wiring(Picture& p) : picture_(p), source_(p.values.size(), -1), sinks_(p.values.size()) {
    for (size_t n = 0; n < p.nodes.size(); ++n) {
      for (const int v : p.nodes[n].makes) source_[static_cast<size_t>(v)] = static_cast<int>(n);
      for (const int v : p.nodes[n].reads)
        sinks_[static_cast<size_t>(v)].push_back(static_cast<int>(n));
    }
    ListChildren();
  }

  void Connect() {
    for (size_t v = 0; v < source_.size(); ++v)
      if (source_[v] >= 0) Connect(static_cast<int>(v));
  }

 private:
  /// Children of each group in the order of the program.
  void ListChildren() {
    child_of_node_.assign(picture_.nodes.size(), -1);
    child_of_group_.assign(picture_.groups.size(), -1);
    for (size_t n = 0; n < picture_.nodes.size(); ++n) {
      PictureNode& node = picture_.nodes[n];
      if (node.bodies >= 0) {
        ListGroup(node.bodies);
        child_of_node_[n] = child_of_group_[static_cast<size_t>(node.bodies)];
      } else {
        child_of_node_[n] = Append(node.group, {Child::Kind::kNode, static_cast<int>(n)});
      }
      if (node.kind == PictureNode::Kind::kOperator)
        for (int g = node.group; g >= 0; g = picture_.groups[static_cast<size_t>(g)].parent)
          ++picture_.groups[static_cast<size_t>(g)].nodes;
    }
  }
  int Append(int group, Child c) {
    ListGroup(group);
    auto& children = picture_.groups[static_cast<size_t>(group)].children;
    children.push_back(c);
    return static_cast<int>(children.size()) - 1;
  }
  void ListGroup(int group) {
    if (group <= 0 || child_of_group_[static_cast<size_t>(group)] >= 0) return;
    const int parent = picture_.groups[static_cast<size_t>(group)].parent;
    child_of_group_[static_cast<size_t>(group)] = Append(parent, {Child::Kind::kGroup, group});
  }

  /// Groups around the node, the outermost first.
  std::vector<int> Around(int node) const {
    std::vector<int> groups;
    for (int g = picture_.nodes[static_cast<size_t>(node)].group; g >= 0;
         g = picture_.groups[static_cast<size_t>(g)].parent)
      groups.push_back(g);
    std::reverse(groups.begin(), groups.end());
    return groups;
  }

  /// The child of groups[depth] on the way to the node.
  int ChildTowards(const std::vector<int>& groups, size_t depth, int node) const {
    return depth + 1 < groups.size() ? child_of_group_[static_cast<size_t>(groups[depth + 1])]
                                     : child_of_node_[static_cast<size_t>(node)];
  }

  /// The group's wire of the value, made with its source where it is new.
  Wire& WireIn(int group, int value, int source_child) {
    PictureGroup& g = picture_.groups[static_cast<size_t>(group)];
    const auto key = (static_cast<uint64_t>(group) << 32) | static_cast<uint32_t>(value);
    const auto [it, is_new] = wire_.try_emplace(key, g.wires.size());
    if (is_new) {
      g.values.push_back(value);
      g.wires.push_back({source_child, {}});
    }
    return g.wires[it->second];
  }
  int Port(int group, Child::Kind kind, int value) {
    const auto key = (static_cast<uint64_t>(group) << 32) | static_cast<uint32_t>(value);
    auto& ports = kind == Child::Kind::kInPort ? in_port_ : out_port_;
    const auto it = ports.find(key);
    if (it != ports.end()) return it->second;
    return ports[key] = Append(group, {kind, value});
  }
  static void AddSink(Wire& w, int sink) {
    if (sink != w.source && std::find(w.sinks.begin(), w.sinks.end(), sink) == w.sinks.end())
      w.sinks.push_back(sink);
  }

  void Connect(int value) {
    const int source = source_[static_cast<size_t>(value)];
    const std::vector<int> from = Around(source);
    for (const int sink : sinks_[static_cast<size_t>(value)]) {
      if (sink == source) continue;
      const std::vector<int> to = Around(sink);
      size_t shared = 0;
      while (shared < std::min(from.size(), to.size()) && from[shared] == to[shared]) ++shared;
      const size_t meet = shared - 1;
      AddSink(WireIn(from[meet], value, ChildTowards(from, meet, source)),
              ChildTowards(to, meet, sink));
      for (size_t d = meet + 1; d < from.size(); ++d) {
        const int out = Port(from[d], Child::Kind::kOutPort, value);
        AddSink(WireIn(from[d], value, ChildTowards(from, d, source)), out);
      }
      for (size_t d = meet + 1; d < to.size(); ++d) {
        const int in = Port(to[d], Child::Kind::kInPort, value);
        AddSink(WireIn(to[d], value, in), ChildTowards(to, d, sink));
      }
    }
  }

  Picture& picture_;
  std::vector<int> source_;  // of a value; -1: none
  std::vector<std::vector<int>> sinks_;
  std::vector<int> child_of_node_, child_of_group_;  // positions among the children of their group
  std::unordered_map<uint64_t, size_t> wire_;
  std::unordered_map<uint64_t, int> in_port_, out_port_;
};

}  // namespace

double WidthOf(const Picture& p, const Child& c) {
  double letters = 0;
  switch (c.kind) {
    case Child::Kind::kNode: {
      const PictureNode& n = p.nodes[static_cast<size_t>(c.index)];
      letters = std::max(kLetter * Letters(n.label), kSmallLetter * Letters(n.detail)) + 26;
      break;
    }
    case Child::Kind::kGroup:
      letters = kLetter * Letters(p.groups[static_cast<size_t>(c.index)].label) + 44;
      break;
    case Child::Kind::kInPort:
    case Child::Kind::kOutPort: return 0;
  }
  return std::min(std::max(letters, kLeastWidth), kMostWidth);
}

double HeightOf(const Picture& p, const Child& c) {
  switch (c.kind) {
    case Child::Kind::kNode:
      return p.nodes[static_cast<size_t>(c.index)].kind == PictureNode::Kind::kOperator
                 ? kNodeHeight
                 : kEndHeight;
    case Child::Kind::kGroup: return kGroupHeight;
    case Child::Kind::kInPort:
    case Child::Kind::kOutPort: break;
  }
  return 0;
}

void LayOutGroups(Picture& p) {
  Wiring(p).Connect();
  for (PictureGroup& g : p.groups) {
    LevelToLay level;
    for (const Child& c : g.children) {
      level.widths.push_back(WidthOf(p, c));
      level.first.push_back(c.kind == Child::Kind::kInPort);
      level.last.push_back(c.kind == Child::Kind::kOutPort);
    }
    level.wires = g.wires;
    g.rows = LayOut(level);
  }
}

}  // namespace infer
