#pragma once
/// Sets of indices along axes, and what links between axes make of them.
#include <unordered_map>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

/// An axis (from the front) of a value.
using AxisKey = std::pair<const Value*, int>;
/// The same order in every run.
struct AxisKeyByName {
  bool operator()(const AxisKey& a, const AxisKey& b) const {
    return a.first != b.first ? a.first->name() < b.first->name() : a.second < b.second;
  }
};
using IndexSet = std::vector<int64_t>;  ///< ascending, without repetition

/// One side of a link at a node: its labels by index, its indices by label.
struct LinkSide {
  bool is_result = false;
  size_t value = 0;  ///< position among operands or results
  int axis = 0;
  std::vector<int64_t> label_of;  ///< -1: none
  std::vector<IndexSet> indices;  ///< by label
};

struct NodeLink {
  AxisLink::Kind kind = AxisLink::Kind::kSame;
  LinkSide a, b;  ///< from, to
};

/// How a set of indices lies in one side of a link.
enum class LinkFit : uint8_t {
  kOutside,  ///< none of them has a label
  kWhole,    ///< with an index all those of its label: the other side loses these labels
  kEven,     ///< of every label equally many: the other side keeps all its indices
  kNeither
};
LinkFit FitOf(const LinkSide& side, const IndexSet& set);
/// The labels of these indices, ascending.
IndexSet LabelsOf(const LinkSide& side, const IndexSet& set);
/// All indices of these labels.
IndexSet IndicesOf(const LinkSide& side, const IndexSet& labels);
/// Adds `more`; whether the set grew.
bool Grow(const IndexSet& more, IndexSet& set);

/// The links of nodes, made once each. Links whose extents are not static are left out.
class LinkTable {
 public:
  const std::vector<NodeLink>& Of(const Node& node);

 private:
  std::unordered_map<const Node*, std::vector<NodeLink>> links_;
};

}  // namespace infer
