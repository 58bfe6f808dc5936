#pragma once
/// Rules test themselves: what every rule, built in or from a user's file, must hold to on its own
/// example and near misses.
#include "passes/rewrite/rule.h"

namespace infer {

/// Every law that `rule` breaks, one line each; empty: it is sound.
///   - each example: fires once, the graph verifies, the outputs keep their names and values
///     (reference kernels, random inputs), a second run changes nothing; of a rule that states a
///     group: matches once
///   - each near miss: nothing fires, for the stated reason
///   - each guard: a near miss has its text as the reason, and the rule would fire there without it
std::vector<std::string> CheckRule(const Rule& rule, const OpRegistry& ops, uint64_t seed = 1);

}  // namespace infer
