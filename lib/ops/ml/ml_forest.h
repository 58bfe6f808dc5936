#pragma once
/// Decision forests of ai.onnx.ml, whatever attributes they were read from.
#include <algorithm>
#include <array>

#include "lib/ops/ml/ml_scores.h"

namespace infer {

enum class Branch : uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember, kLeaf };
enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };

struct Vote {
  int64_t target;
  double weight;
};

struct TreeNode {
  Branch mode = Branch::kLeaf;
  bool missing_is_true = false;
  int64_t feature = 0;
  double split = 0;
  std::array<size_t, 2> next = {};  ///< where its condition does not hold, and where it does
  size_t begin = 0, end = 0;        ///< of a leaf its votes, of kMember the members
};

struct Forest {
  std::vector<TreeNode> nodes;
  std::vector<size_t> roots;
  std::vector<Vote> votes;
  std::vector<double> members;
  int64_t targets = 0;
};

/// A node's forest with what its other attributes say, read once (OpDef::prepare).
struct ForestModel {
  Forest forest;
  Aggregate how = Aggregate::kSum;
  PostTransform transform = PostTransform::kNone;
  std::vector<double> base;  ///< of all targets, one for each, or none
  Tensor labels;             ///< of a classifier
  /// Two classes, and all votes are for `voted_class`; they are all positive.
  bool is_binary = false, is_positive = false;
  int64_t voted_class = 0;
};

/// The trees of a TreeEnsemble. InvalidModel where attributes contradict each other.
Result<Forest> ReadEnsemble(const OpCall& call);
/// Those of the older forms, whose votes have attributes that begin with `votes`: "target" or
/// "class". InvalidModel: lists of different lengths, nodes that are not there, stand twice or are
/// reached by no root.
Result<Forest> ReadLegacyForest(const OpCall& call, const std::string& votes, int64_t targets);

/// Adds a vote to a row's scores, by target; voted: which have had one.
inline void CountVote(Aggregate how, const Vote& v, std::span<double> scores,
                      std::span<char> voted) {
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
/// The values of a regression, out of the sums of a row's votes.
void FinishTargets(const ForestModel& model, std::span<double> scores);
/// The class and the scores, out of the sums of a row's votes.
int64_t DecideClass(const ForestModel& model, std::span<double> scores,
                    std::span<const char> voted);

using RowUse = FunctionRef<void(int64_t, std::vector<double>&, const std::vector<char>&)>;
/// Calls use(row, scores, voted) for each row of `x` with the targets' values before any transform
/// and which of them had a vote; on several threads, each with scores of its own, which `use` may
/// change. InvalidModel where a row comes to a feature that is not there, or nodes form a cycle.
Status ForEachRow(const ForestModel& model, const Tensor& x, RowUse use);

}  // namespace infer
