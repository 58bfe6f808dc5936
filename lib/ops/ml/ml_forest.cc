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

/// The leaf that a row ends at.
template <typename T>
Fault FindLeaf(const Forest& f, size_t at, std::span<const T> row, const TreeNode*& leaf) {
  for (size_t steps = 0; steps <= f.nodes.size(); ++steps) {
    const TreeNode& n = f.nodes[at];
    if (n.mode == Branch::kLeaf) {
      leaf = &n;
      return Fault::kNone;
    }
    if (n.feature < 0 || static_cast<size_t>(n.feature) >= row.size()) return Fault::kFeature;
    at = Holds(f, n, static_cast<double>(row[static_cast<size_t>(n.feature)])) ? n.if_true
                                                                               : n.if_false;
  }
  return Fault::kCycle;
}

void Count(Aggregate how, const Vote& v, std::vector<double>& scores, std::vector<char>& voted) {
  double& s = scores[static_cast<size_t>(v.target)];
  char& any = voted[static_cast<size_t>(v.target)];
  if (how == Aggregate::kSum || how == Aggregate::kAverage)
    s += v.weight;
  else if (!any)
    s = v.weight;
  else
    s = how == Aggregate::kMin ? std::min(s, v.weight) : std::max(s, v.weight);
  any = 1;
}

template <typename T>
Fault SumVotes(const Forest& f, Aggregate how, std::span<const T> row, std::vector<double>& scores,
               std::vector<char>& voted) {
  scores.assign(static_cast<size_t>(f.targets), 0.0);
  voted.assign(static_cast<size_t>(f.targets), 0);
  for (size_t root : f.roots) {
    const TreeNode* leaf = nullptr;
    if (const Fault fault = FindLeaf(f, root, row, leaf); fault != Fault::kNone) return fault;
    for (size_t i = leaf->begin; i < leaf->end; ++i) Count(how, f.votes[i], scores, voted);
  }
  if (how == Aggregate::kAverage)
    for (double& s : scores) s /= static_cast<double>(f.roots.size());
  return Fault::kNone;
}

template <typename T>
Fault EachRow(const ForestModel& model, const Tensor& x, RowUse use) {
  constexpr int64_t kTreesOfAPart = 2048;
  const Rows rows = RowsOf(x);
  const auto trees = static_cast<int64_t>(model.forest.roots.size());
  const auto data = x.data<T>();
  std::atomic<Fault> found{Fault::kNone};
  ParallelFor(rows.count, std::max<int64_t>(1, kTreesOfAPart / std::max<int64_t>(trees, 1)),
              [&](int64_t begin, int64_t end) {
                std::vector<double> scores;
                std::vector<char> voted;
                for (int64_t row = begin; row < end && found == Fault::kNone; ++row) {
                  const auto features = data.subspan(static_cast<size_t>(row * rows.features),
                                                     static_cast<size_t>(rows.features));
                  const Fault fault = SumVotes<T>(model.forest, model.how, features, scores, voted);
                  if (fault == Fault::kNone)
                    use(row, scores, voted);
                  else
                    found = fault;
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
