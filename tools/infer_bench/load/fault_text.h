#pragma once
/// Planned faults as --fault has them: "run:fail:0.01", "run:delay:5%:20ms".
#include <string>
#include <vector>

#include "runtime/engine/faults.h"
#include "tools/common/report.h"

namespace infer::bench {

inline constexpr const char* kFaultHelp =
    "Of the engine: planned faults SITE:KIND:RATE[:DELAY], by --seed; a query that fails counts as "
    "answered. SITE: bind, run, answer; KIND: fail, throw, delay: run:fail:0.01,run:delay:5%:20ms";

/// InvalidArgument: a text that is none.
Result<engine::FaultPlan> ParseFaults(const std::vector<std::string>& texts, uint64_t seed);
/// [{"site", "kind", "rate", "delay_ms", "visits", "met"}].
Json FaultsJson(const std::vector<engine::FaultCount>& faults);
/// "run fail 1 %: 12 of 1160 visits"; one a line.
std::string FaultsText(const std::vector<engine::FaultCount>& faults);

}  // namespace infer::bench
