#include "quant/prune/axis_sets.h"

#include <algorithm>
#include <iterator>
#include <optional>

namespace infer {
namespace {

/// -1: not known.
int64_t ExtentOf(const Value* v, int axis) {
  if (!v || !v->type().is_tensor() || !v->shape().has_rank() || axis >= v->shape().rank())
    return -1;
  const Dim& d = v->shape()[axis];
  return d.is_static() ? d.value() : -1;
}

std::optional<LinkSide> SideOf(const Node& node, const LabelledAxis& axis, bool is_result,
                               int64_t labels) {
  LinkSide side{is_result, axis.value, axis.axis, {}, {}};
  const int64_t extent =
      ExtentOf(is_result ? node.output(axis.value) : node.input(axis.value), axis.axis);
  if (extent < 1) return std::nullopt;
  if (labels < 0) labels = extent;
  side.label_of.resize(static_cast<size_t>(extent));
  side.indices.resize(static_cast<size_t>(labels));
  for (int64_t i = 0; i < extent; ++i) {
    const int64_t label = axis.LabelOf(i, labels);
    side.label_of[static_cast<size_t>(i)] = label;
    if (label >= labels) return std::nullopt;
    if (label >= 0) side.indices[static_cast<size_t>(label)].push_back(i);
  }
  return side;
}

}  // namespace

LinkFit FitOf(const LinkSide& side, const IndexSet& set) {
  std::unordered_map<int64_t, int64_t> counts;
  for (const int64_t i : set)
    if (const int64_t label = side.label_of[static_cast<size_t>(i)]; label >= 0) ++counts[label];
  if (counts.empty()) return LinkFit::kOutside;
  const auto size_of = [&](int64_t label) {
    return static_cast<int64_t>(side.indices[static_cast<size_t>(label)].size());
  };
  bool whole = true, even = counts.size() == side.indices.size();
  const int64_t count = counts.begin()->second, size = size_of(counts.begin()->first);
  for (const auto& [label, n] : counts) {
    whole = whole && n == size_of(label);
    even = even && n == count && size_of(label) == size;
  }
  return whole ? LinkFit::kWhole : even ? LinkFit::kEven : LinkFit::kNeither;
}

IndexSet LabelsOf(const LinkSide& side, const IndexSet& set) {
  IndexSet labels;
  for (const int64_t i : set)
    if (const int64_t label = side.label_of[static_cast<size_t>(i)]; label >= 0)
      labels.push_back(label);
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return labels;
}

IndexSet IndicesOf(const LinkSide& side, const IndexSet& labels) {
  IndexSet set;
  for (const int64_t label : labels) {
    const IndexSet& more = side.indices[static_cast<size_t>(label)];
    set.insert(set.end(), more.begin(), more.end());
  }
  std::sort(set.begin(), set.end());
  return set;
}

bool Grow(const IndexSet& more, IndexSet& set) {
  IndexSet sum;
  std::set_union(set.begin(), set.end(), more.begin(), more.end(), std::back_inserter(sum));
  if (sum.size() == set.size()) return false;
  set = std::move(sum);
  return true;
}

const std::vector<NodeLink>& LinkTable::Of(const Node& node) {
  const auto [it, is_new] = links_.try_emplace(&node);
  if (!is_new) return it->second;
  for (const AxisLink& l : AxesOf(CallOf(node))) {
    const bool same = l.kind == AxisLink::Kind::kSame;
    auto a = SideOf(node, l.from, false, l.labels), b = SideOf(node, l.to, same, l.labels);
    if (a && b && a->indices.size() == b->indices.size())
      it->second.push_back({l.kind, *std::move(a), *std::move(b)});
  }
  return it->second;
}

}  // namespace infer
