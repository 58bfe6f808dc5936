#include "runtime/cpu/kernels/ml/compact_forest.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace infer {
namespace {

/// A condition as x <= split, or its opposite.
struct Condition {
  float split = 0;
  bool opposite = false;
};
Result<Condition> ConditionOf(const TreeNode& n) {
  const auto split = static_cast<float>(n.split);
  if (!std::isfinite(split) || static_cast<double>(split) != n.split)
    return Unsupported("a split is no finite f32");
  // x < split where x <= the number before.
  const float before = std::nextafter(split, -std::numeric_limits<float>::infinity());
  switch (n.mode) {
    case Branch::kLeq: return Condition{split, false};
    case Branch::kLt: return Condition{before, false};
    case Branch::kGte: return Condition{before, true};
    case Branch::kGt: return Condition{split, true};
    default: return Unsupported("conditions other than <=, <, >= and >");
  }
}

}  // namespace

Result<CompactForest> CompactForest::Of(const Forest& forest) {
  if (forest.nodes.size() > INT32_MAX || forest.votes.size() > INT32_MAX)
    return Unsupported("too many nodes");
  CompactForest f;
  f.targets_ = forest.targets;
  f.begin_ = {0};
  std::vector<char> seen(forest.nodes.size());
  for (const size_t root : forest.roots) INFER_TRY(f.Add(forest, root, seen));
  return f;
}

Status CompactForest::Add(const Forest& forest, size_t root, std::vector<char>& seen) {
  struct Waiting {
    size_t node;
    int64_t depth;
    uint32_t parent;
    int side;  ///< of the parent; -1: the root
  };
  std::vector<Waiting> open = {{root, 0, 0, -1}};
  int64_t depth = 0;
  while (!open.empty()) {
    const Waiting w = open.back();
    open.pop_back();
    if (w.node >= seen.size()) return Unsupported("a node is not there");
    const TreeNode& n = forest.nodes[w.node];
    const auto here = static_cast<uint32_t>(nodes_.size());
    if (w.side < 0)
      roots_.push_back(here);
    else
      nodes_[w.parent].next[w.side] = here;
    depth = std::max(depth, w.depth);
    if (n.mode == Branch::kLeaf) {
      nodes_.push_back(
          {.leaf = static_cast<uint32_t>(begin_.size() - 1), .feature = 0, .next = {here, here}});
      missing_.push_back(0);
      votes_.insert(votes_.end(), forest.votes.begin() + static_cast<ptrdiff_t>(n.begin),
                    forest.votes.begin() + static_cast<ptrdiff_t>(n.end));
      begin_.push_back(static_cast<uint32_t>(votes_.size()));
      continue;
    }
    // Leaves may be shared.
    if (seen[w.node]++) return Unsupported("a node has two parents");
    INFER_ASSIGN(const Condition c, ConditionOf(n));
    if (n.feature < 0 || n.feature > INT32_MAX) return Unsupported("a feature that no row has");
    highest_feature_ = std::max(highest_feature_, n.feature);
    // A NaN holds where it is said to; x <= split does not hold for it.
    const bool missing = n.missing_is_true != c.opposite;
    any_missing_ |= missing;
    missing_.push_back(missing ? 1 : 0);
    nodes_.push_back({.split = c.split, .feature = static_cast<uint32_t>(n.feature), .next = {}});
    const int holds = c.opposite ? 0 : 1;
    open.push_back({n.next[0], w.depth + 1, here, 1 - holds});
    open.push_back({n.next[1], w.depth + 1, here, holds});
  }
  steps_ += depth + 1;
  return {};
}

int64_t CompactForest::bytes() const {
  return static_cast<int64_t>(nodes_.size() * (sizeof(Node) + 1) + votes_.size() * sizeof(Vote) +
                              (begin_.size() + roots_.size()) * sizeof(uint32_t));
}

template <bool kAnyMissing>
void CompactForest::Walk(const float* const* rows, uint32_t* at) const {
  const Node* const nodes = nodes_.data();
  const char* const missing = missing_.data();
  for (uint32_t moved = 1; moved != 0;) {
    moved = 0;
    for (size_t w = 0; w < kWalks; ++w) {
      const Node& n = nodes[at[w]];
      const float v = rows[w][n.feature];
      uint32_t holds = v <= n.split ? 1 : 0;
      if constexpr (kAnyMissing) holds |= v != v ? static_cast<uint32_t>(missing[at[w]]) : 0;
      const uint32_t next = n.next[holds];
      moved |= next ^ at[w];
      at[w] = next;
    }
  }
}

void CompactForest::WalkAll(Jobs& jobs, size_t count, bool any_missing) const {
  for (; count % kWalks != 0; ++count) {
    jobs.rows[count] = jobs.rows[0];
    jobs.at[count] = jobs.at[0];
  }
  for (size_t j = 0; j < count; j += kWalks)
    any_missing ? Walk<true>(jobs.rows + j, jobs.at + j) : Walk<false>(jobs.rows + j, jobs.at + j);
}

void CompactForest::CountLeaf(Aggregate how, uint32_t node, double* scores, char* voted) const {
  const uint32_t leaf = nodes_[node].leaf, end = begin_[leaf + 1];
  const auto targets = static_cast<size_t>(targets_);
  if (how == Aggregate::kSum || how == Aggregate::kAverage)
    for (uint32_t i = begin_[leaf]; i < end; ++i) {
      scores[votes_[i].target] += votes_[i].weight;
      voted[votes_[i].target] = 1;
    }
  else
    for (uint32_t i = begin_[leaf]; i < end; ++i)
      CountVote(how, votes_[i], {scores, targets}, {voted, targets});
}

void CompactForest::Count(Aggregate how, const float* x, int64_t rows, int64_t features,
                          double* scores, char* voted) const {
  std::fill_n(scores, rows * targets_, 0.0);
  std::fill_n(voted, rows * targets_, static_cast<char>(0));
  int nans = 0;
  for (int64_t i = 0; any_missing_ && i < rows * features; ++i) nans |= x[i] != x[i] ? 1 : 0;
  Jobs jobs;
  const auto n = static_cast<size_t>(rows), at_once = std::max<size_t>(1, kJobs / n);
  for (size_t tree = 0; tree < roots_.size(); tree += at_once) {
    const size_t trees = std::min(at_once, roots_.size() - tree);
    for (size_t t = 0; t < trees; ++t)
      for (size_t r = 0; r < n; ++r) {
        jobs.rows[t * n + r] = x + static_cast<int64_t>(r) * features;
        jobs.at[t * n + r] = roots_[tree + t];
      }
    WalkAll(jobs, trees * n, nans != 0);
    // Every row counts its trees in their order.
    for (size_t t = 0; t < trees; ++t)
      for (size_t r = 0; r < n; ++r) {
        const auto to = static_cast<int64_t>(r) * targets_;
        CountLeaf(how, jobs.at[t * n + r], scores + to, voted + to);
      }
  }
  if (how == Aggregate::kAverage)
    for (int64_t i = 0; i < rows * targets_; ++i) scores[i] /= static_cast<double>(roots_.size());
}

}  // namespace infer
