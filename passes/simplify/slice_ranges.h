#pragma once
/// Slices with constant bounds, for the rules that move and join them.
#include <optional>
#include <vector>

#include "passes/rewrite/patch.h"

namespace infer {

/// What a Slice takes of one axis, as written: negative numbers count from the end.
struct SliceRange {
  int64_t axis = 0, start = 0, end = 0, step = 1;
};

/// nullopt where a bound is made during the run, or the rank of the operand is not known. Axes
/// count from the front.
std::optional<std::vector<SliceRange>> SliceRangesOf(const Node& slice);
/// The same with 0 <= start <= end <= extent; nullopt for a step below 1.
std::optional<SliceRange> Counted(const SliceRange& r, int64_t extent);
Result<Value*> BuildSlice(PatchBuilder& b, Value* x, const std::vector<SliceRange>& ranges);

}  // namespace infer
