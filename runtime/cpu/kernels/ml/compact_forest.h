#pragma once
/// Decision trees over f32 features as nodes of sixteen bytes, and some walks down them side by
/// side: each waits for its own node, not for those of the others.
#include <vector>

#include "lib/ops/ml/ml_forest.h"
#include "lib/support/status.h"

namespace infer {

class CompactForest {
 public:
  /// Rows whose votes are counted together.
  static constexpr int64_t kRows = 64;

  /// Unsupported: conditions other than <=, <, >= and >, splits that are no finite f32, nodes with
  /// more than one parent.
  static Result<CompactForest> Of(const Forest& forest);

  /// A row has more features than this.
  int64_t highest_feature() const { return highest_feature_; }
  int64_t bytes() const;
  /// Nodes that a row passes, at most as many as this.
  int64_t steps() const { return steps_; }
  /// The votes of all trees for `rows` rows of x, at most kRows: scores [rows, targets], and which
  /// targets had one.
  void Count(Aggregate how, const float* x, int64_t rows, int64_t features, double* scores,
             char* voted) const;

 private:
  /// A leaf leads to itself; its number stands for the split.
  struct Node {
    union {
      float split;
      uint32_t leaf;
    };
    uint32_t feature;
    uint32_t next[2];  ///< where feature <= split does not hold, and where it does
  };
  /// Walks side by side, and how many stand in a list: from which node over which row, and the leaf
  /// where it ended.
  static constexpr size_t kWalks = 8, kJobs = 64;
  struct Jobs {
    const float* rows[kJobs];
    uint32_t at[kJobs];
  };

  Status Add(const Forest& forest, size_t root, std::vector<char>& seen);
  template <bool kAnyMissing>
  void Walk(const float* const* rows, uint32_t* at) const;
  void WalkAll(Jobs& jobs, size_t count, bool any_missing) const;
  void CountLeaf(Aggregate how, uint32_t node, double* scores, char* voted) const;

  std::vector<Node> nodes_;
  std::vector<char> missing_;  ///< by node: a NaN goes where the condition holds
  std::vector<uint32_t> roots_;
  std::vector<uint32_t> begin_;  ///< leaf l has votes begin_[l] to begin_[l + 1]
  std::vector<Vote> votes_;
  int64_t targets_ = 0, highest_feature_ = 0, steps_ = 0;
  bool any_missing_ = false;
};

}  // namespace infer
