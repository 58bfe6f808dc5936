#pragma once
/// How a reduction walks its operand, whatever axes it reduces and keeps.
#include <span>
#include <vector>

#include "runtime/plan_ir/kernel.h"

namespace infer {

/// The axes that a reduction folds, in order. `axes_at`: the operand that has them, or -1.
Result<std::vector<int>> ReducedAxes(std::span<const Operand> in, int axes_at,
                                     bool none_means_none);

/// Results come in blocks of `columns` that lie side by side; each folds, for every offset, `row`
/// elements that follow each other. One of `columns` and `row` is 1.
struct ReducePlan {
  int64_t columns = 1, row = 1;
  int64_t blocks = 1;            ///< results / columns
  int64_t n = 1;                 ///< elements that a result folds
  std::vector<int64_t> offsets;  ///< of rows, from the start of a block
  Dims kept, strides;            ///< axes of blocks that are kept, the neighbours merged

  /// `axes` in order. Unsupported where the offsets would take too much memory.
  static Result<ReducePlan> Of(const Dims& dims, const std::vector<int>& axes);
  /// Where block b begins in the operand.
  int64_t Start(int64_t b) const {
    int64_t at = 0;
    for (size_t d = kept.size(); d-- > 1; b /= kept[d]) at += b % kept[d] * strides[d];
    return kept.empty() ? at : at + b * strides[0];
  }
};

}  // namespace infer
