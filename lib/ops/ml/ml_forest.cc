#include "lib/ops/ml/ml_forest.h"

#include <atomic>
#include <cmath>

namespace infer {
namespace {

bool Holds(const Forest& f, const TreeNode& n, double x) {
  if (std::isnan(x) && n.missing_is_true) return true;
  switch (n.mode) {
    case Branch::kLeq: return x <= n.split;
    case Branch::kLt: return x < n.split;
    case Branch::kGte: return x >= n.split;
    case Branch::kGt: return x > n.split;
    case Branch::kEq: return x == n.split;
    case Branch::kNeq: return x != n.split;
    case Branch::kMember: {
      const auto first = f.members.begin();
      const auto end = first + static_cast<std::ptrdiff_t>(n.end);
      return std::find(first + static_cast<std::ptrdiff_t>(n.begin), end, x) != end;
    }
    case Branch::kLeaf: break;
  }
  return false;
}

enum class Fault : uint8_t { kNone, kFeature, kCycle };

/// Rows that go down a tree side by side: each waits for its own node, not for those of the others.
constexpr size_t kTogether = 8;

/// The leaves that rows end at.
template <typename T>
Fault FindLeaves(const Forest& f, size_t root, std::span<const std::span<const T>> rows,
                 std::span<const TreeNode*> leaves) {
  std::fill_n(leaves.begin(), rows.size(), &f.nodes[root]);
  for (size_t steps = 0; steps <= f.nodes.size(); ++steps) {
    bool moves = false;
    for (size_t r = 0; r < rows.size(); ++r) {
      const TreeNode& n = *leaves[r];
      if (n.mode == Branch::kLeaf) continue;
      if (n.feature < 0 || static_cast<size_t>(n.feature) >= rows[r].size()) return Fault::kFeature;
      const bool holds = Holds(f, n, static_cast<double>(rows[r][static_cast<size_t>(n.feature)]));
      leaves[r] = &f.nodes[n.next[holds ? 1 : 0]];
      moves = true;
    }
    if (!moves) return Fault::kNone;
  }
  return Fault::kCycle;
}

/// The votes of all trees for some rows.
struct RowScores {
  std::array<std::vector<double>, kTogether> scores;
  std::array<std::vector<char>, kTogether> voted;
};

template <typename T>
Fault SumVotes(const Forest& f, Aggregate how, std::span<const std::span<const T>> rows,
               RowScores& of) {
  for (size_t r = 0; r < rows.size(); ++r) {
    of.scores[r].assign(static_cast<size_t>(f.targets), 0.0);
    of.voted[r].assign(static_cast<size_t>(f.targets), 0);
  }
  std::array<const TreeNode*, kTogether> leaves = {};
  for (size_t root : f.roots) {
    if (const Fault fault = FindLeaves<T>(f, root, rows, leaves); fault != Fault::kNone)
      return fault;
    for (size_t r = 0; r < rows.size(); ++r)
      for (size_t i = leaves[r]->begin; i < leaves[r]->end; ++i)
        CountVote(how, f.votes[i], of.scores[r], of.voted[r]);
  }
  if (how == Aggregate::kAverage)
    for (size_t r = 0; r < rows.size(); ++r)
      for (double& s : of.scores[r]) s /= static_cast<double>(f.roots.size());
  return Fault::kNone;
}

template <typename T>
Fault EachRow(const ForestModel& model, const Tensor& x, RowUse use) {
  constexpr int64_t kTreesOfAPart = 2048;
  const Rows all = RowsOf(x);
  const auto trees = static_cast<int64_t>(model.forest.roots.size());
  const auto data = x.data<T>();
  std::atomic<Fault> found{Fault::kNone};
  ParallelFor(all.count, std::max<int64_t>(1, kTreesOfAPart / std::max<int64_t>(trees, 1)),
              [&](int64_t begin, int64_t end) {
                RowScores of;
                std::array<std::span<const T>, kTogether> rows;
                for (int64_t row = begin; row < end && found == Fault::kNone;) {
                  const size_t count = std::min(kTogether, static_cast<size_t>(end - row));
                  for (size_t r = 0; r < count; ++r)
                    rows[r] = data.subspan(
                        (static_cast<size_t>(row) + r) * static_cast<size_t>(all.features),
                        static_cast<size_t>(all.features));
                  const Fault fault =
                      SumVotes<T>(model.forest, model.how,
                                  std::span<const std::span<const T>>(rows.data(), count), of);
                  if (fault != Fault::kNone) {
                    found = fault;
                    return;
                  }
                  for (size_t r = 0; r < count; ++r, ++row) use(row, of.scores[r], of.voted[r]);
                }
              });
  return found;
}

Result<Fault> EachRowOfType(const ForestModel& model, const Tensor& x, RowUse use) {
  switch (x.dtype()) {
    case DType::kF32: return EachRow<float>(model, x, use);
    case DType::kF64: return EachRow<double>(model, x, use);
    case DType::kI64: return EachRow<int64_t>(model, x, use);
    case DType::kI32: return EachRow<int32_t>(model, x, use);
    case DType::kF16:
    case DType::kBF16: return EachRow<float>(model, x.Cast(DType::kF32), use);
    default: return Unsupported(Cat("trees over ", Name(x.dtype())));
  }
}

}  // namespace

Status ForEachRow(const ForestModel& model, const Tensor& x, RowUse use) {
  INFER_ASSIGN(const Fault fault, EachRowOfType(model, x, use));
  if (fault == Fault::kCycle) return InvalidModel("the nodes of a tree form a cycle");
  if (fault == Fault::kFeature)
    return InvalidModel(Cat("a node asks for a feature that is not among ", RowsOf(x).features));
  return {};
}

}  // namespace infer
