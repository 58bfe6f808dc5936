#pragma once
/// Decision forests of ai.onnx.ml, whatever attributes they were read from.
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
  int64_t feature = 0;
  double split = 0;
  std::vector<double> members = {};
  size_t if_true = 0, if_false = 0;
  bool missing_is_true = false;
  std::vector<Vote> votes = {};  // of a leaf
};

struct Forest {
  std::vector<TreeNode> nodes;
  std::vector<size_t> roots;
  int64_t targets = 0;
};

/// The targets' values of one row before any transform; `voted` says which had a vote. InvalidModel
/// when nodes form a cycle or ask for a feature that is not there.
Status SumVotes(const Forest& f, Aggregate how, const Tensor& x, int64_t row, int64_t features,
                std::vector<double>& scores, std::vector<char>& voted);

/// Output 0 of a regression over the rows of input 0, [rows, targets]. `base`: a value for all
/// targets, one for each, or none.
Status RunForest(OpRun& run, const Forest& f, Aggregate how, PostTransform transform,
                 const std::vector<double>& base, DType out);

}  // namespace infer
