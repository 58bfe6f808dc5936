#pragma once
/// Messages of a graph network that are rows of a table as they stand: a Gather picks them, one for
/// each edge, and a ScatterND reduces them by node. In one step the picked rows need no memory.
#include <optional>

#include "lib/pattern/rule.h"
#include "runtime/plan_ir/groups/grouping.h"

namespace infer {

struct GatheredUpdates {
  int table = -1, picks = -1;  ///< operands of the step: the rows, and which of them: [updates]
};

/// ScatterND(x, i, Gather(table, picks)).
const Rule& GatheredUpdatesRule();

/// The Gather before the main ScatterND of the step; nullopt where none stands there.
std::optional<GatheredUpdates> GatheredUpdatesOf(const StepCall& call);

/// Puts a Gather of one reader into the step of that ScatterND where some kernel accepts both.
void FoldGatheredUpdates(Plan& plan, AcceptsStep accepts);

}  // namespace infer
