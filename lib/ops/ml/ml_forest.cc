#include "lib/ops/ml/ml_forest.h"

#include <cmath>

namespace infer {
namespace {

bool Holds(const TreeNode& n, double x) {
  if (std::isnan(x) && n.missing_is_true) return true;
  switch (n.mode) {
    case Branch::kLeq: return x <= n.split;
    case Branch::kLt: return x < n.split;
    case Branch::kGte: return x >= n.split;
    case Branch::kGt: return x > n.split;
    case Branch::kEq: return x == n.split;
    case Branch::kNeq: return x != n.split;
    case Branch::kMember:
      return std::find(n.members.begin(), n.members.end(), x) != n.members.end();
    case Branch::kLeaf: break;
  }
  return false;
}

/// The leaf that a row ends at. InvalidModel when nodes form a cycle or a feature is not there.
Result<const TreeNode*> LeafOf(const Forest& f, size_t at, const Tensor& x, int64_t row,
                               int64_t features) {
  for (size_t steps = 0; steps <= f.nodes.size(); ++steps) {
    const TreeNode& n = f.nodes[at];
    if (n.mode == Branch::kLeaf) return &n;
    if (n.feature < 0 || n.feature >= features)
      return InvalidModel(Cat("a node asks for feature ", n.feature, " of ", features));
    at = Holds(n, x.At(row * features + n.feature)) ? n.if_true : n.if_false;
  }
  return InvalidModel("the nodes of a tree form a cycle");
}

}  // namespace

Status SumVotes(const Forest& f, Aggregate how, const Tensor& x, int64_t row, int64_t features,
                std::vector<double>& scores, std::vector<char>& voted) {
  scores.assign(static_cast<size_t>(f.targets), 0.0);
  voted.assign(static_cast<size_t>(f.targets), 0);
  for (size_t root : f.roots) {
    INFER_ASSIGN(const TreeNode* leaf, LeafOf(f, root, x, row, features));
    for (const Vote& v : leaf->votes) {
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
  }
  if (how == Aggregate::kAverage)
    for (double& s : scores) s /= static_cast<double>(f.roots.size());
  return {};
}

Status RunForest(OpRun& run, const Forest& f, Aggregate how, PostTransform transform,
                 const std::vector<double>& base, DType out) {
  const Tensor& x = run.in(0);
  const Rows rows = RowsOf(x);
  if (!base.empty() && base.size() != static_cast<size_t>(f.targets) && base.size() != 1)
    return InvalidModel(Cat(base.size(), " base values for ", f.targets, " targets"));
  Tensor& y = run.Out(0, out, {rows.count, f.targets});
  std::vector<double> scores;
  std::vector<char> voted;
  for (int64_t row = 0; row < rows.count; ++row) {
    INFER_TRY(SumVotes(f, how, x, row, rows.features, scores, voted));
    for (size_t i = 0; i < scores.size() && !base.empty(); ++i)
      scores[i] += base.size() == 1 ? base[0] : base[i];
    Apply(transform, scores);
    for (int64_t i = 0; i < f.targets; ++i)
      y.Set(row * f.targets + i, scores[static_cast<size_t>(i)]);
  }
  return {};
}

}  // namespace infer
