#pragma once
/// A model, or two beside each other, as a picture: nodes, values, groups that fold, and the
/// layered drawing of what each group holds. Places are told level by level, so that a reader (the
/// page's script, the SVG) can open and close groups without laying out anything anew.
#include <string>
#include <vector>

#include "lib/ir/graph.h"
#include "tools/graph/layered.h"

namespace infer {

/// Of a node or value where two graphs are drawn as one. A graph alone has kSame only.
enum class Fate : uint8_t { kSame, kChanged, kRemoved, kAdded };

struct PictureNode {
  enum class Kind : uint8_t { kOperator, kInput, kOutput };
  Kind kind = Kind::kOperator;
  const Node* node = nullptr;    ///< of an operator; of `after` where both graphs have it
  const Value* value = nullptr;  ///< of an input or output
  Fate fate = Fate::kSame;
  std::vector<int> partners;      ///< nodes of the other graph: what it replaced or was replaced by
  std::vector<std::string> news;  ///< of a changed node: what differs
  std::vector<int> reads, makes;  ///< values
  int group = 0;                  ///< that it lies in
  int bodies = -1;                ///< the group of its bodies, which stands for it in the drawing
  std::string label, detail;      ///< the two lines of its box
};

struct PictureValue {
  const Value* value;
  Fate fate = Fate::kSame;
};

struct Child {
  enum class Kind : uint8_t { kNode, kGroup, kInPort, kOutPort };
  Kind kind;
  int index;  ///< of the node, the group, or the value that comes in or goes out
};

struct PictureGroup {
  enum class Kind : uint8_t { kAll, kScope, kBodies, kBody, kReplaced, kPart };
  Kind kind = Kind::kAll;
  std::string label;
  int parent = -1;
  int node = -1;  ///< of kBodies: whose bodies they are
  int nodes = 0;  ///< operators in it and in all groups within
  std::vector<Child> children;
  std::vector<int> values;  ///< of the wires
  std::vector<Wire> wires;  ///< between children
  Rows rows;                ///< with all groups in it closed
};

struct Picture {
  std::vector<PictureNode> nodes;
  std::vector<PictureValue> values;
  std::vector<PictureGroup> groups;  ///< 0 holds all
};

/// The graphs must live as long as the picture.
Picture Draw(const Graph& g);
/// Both graphs as one: what both have once, what only one has as removed and added. A removed node
/// lies in a group beside the node that replaced it and others.
Picture DrawDiff(const Graph& before, const Graph& after);

/// Extents of boxes, as the drawing assumes them.
constexpr double kNodeHeight = 42, kGroupHeight = 50, kEndHeight = 30;
double WidthOf(const Picture& p, const Child& c);
double HeightOf(const Picture& p, const Child& c);

}  // namespace infer
