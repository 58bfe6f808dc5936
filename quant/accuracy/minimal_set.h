#pragma once
/// Which layers break a model: delta debugging over layers taken from the candidate.
///
/// ddmin: Zeller & Hildebrandt 2002, Simplifying and Isolating Failure-Inducing Input, IEEE TSE
/// 28(2), doi 10.1109/32.988498. Before it, the shortest beginning of the ranking that breaks is
/// searched by halving, which takes log2(n) judgements where errors add up.
#include <functional>
#include <vector>

#include "lib/support/status.h"

namespace infer {

struct MinimalSet {
  std::vector<size_t> members;
  int tried = 0;        ///< sets that were judged
  bool minimal = true;  ///< without any one member it does not break; false: the judgements ran out
};

/// Whether these break it.
using JudgeSet = std::function<Result<bool>(const std::vector<size_t>&)>;

/// A subset of `ranked` that breaks. `ranked`: most suspect first. Pre: `ranked` as a whole breaks
/// (it is not judged again), the empty set does not. At most about `max_tries` judgements.
Result<MinimalSet> FindMinimalSet(const std::vector<size_t>& ranked, const JudgeSet& judge,
                                  int max_tries = 200);

}  // namespace infer
