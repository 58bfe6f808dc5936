#pragma once
/// Regions that a rule almost matched: what a user may want to know when nothing was rewritten.
#include "passes/rewrite/driver.h"

namespace infer {

struct NearMiss {
  std::string rule;
  std::string at;                  ///< name of the value that would have been replaced
  std::vector<std::string> nodes;  ///< names of the original nodes that fitted
  int matched = 0, of = 0;         ///< operators of the pattern
  std::string reason;              ///< "'c' is not = 2, it is 3"
};

/// Of `g` as rewriting left it, nearest first, at most `max`: patterns of three operators or more
/// of which more than two thirds fit. A region is told once, for the rule that came nearest, and
/// not where an applied match as large has some of its nodes.
std::vector<NearMiss> FindNearMisses(const Graph& g, std::span<const Rule* const> rules,
                                     std::span<const MatchRecord> records, size_t max);

}  // namespace infer
