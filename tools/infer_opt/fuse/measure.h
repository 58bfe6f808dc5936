#pragma once
/// A/B timing of two forms of a model on a device, in turns, and which rules are worth it there.
#include <stop_token>

#include "passes/pass/pipeline.h"
#include "tools/common/model_options.h"
#include "tools/common/pair_timing.h"
#include "tools/common/report.h"
#include "tools/graph/facts.h"

namespace infer {

/// What each step takes, by the name of its last node's first result.
Result<NodeTimes> TimesByNode(const Program& program, const std::vector<Datum>& inputs,
                              const std::stop_token& stop);

struct RuleTiming {
  std::string rule;
  PairTiming timing;  ///< a: with the rule, b: without
  bool kept = true;
};

/// Tries every rule that is applied: times the model with all rules against the model without this
/// one, and leaves the rule out for good where that is faster beyond doubt. Pre: `options` has no
/// stop_after. Matches that checking refused (`refused`: rule and place) stay refused.
Result<std::vector<RuleTiming>> ChooseRules(Context& context, const Graph& golden,
                                            const OptimizeOptions& options,
                                            const DeviceOptions& device,
                                            const std::vector<Datum>& inputs);

std::string ToText(const std::vector<RuleTiming>& rules);
std::string ToText(const PairTiming& before_after);
Json ToJson(const std::vector<RuleTiming>& rules);

}  // namespace infer
