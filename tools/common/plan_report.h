#pragma once
/// `inspect --plan`: what compiling made of a model, as text and in the report.
#include <span>
#include <string>

#include "runtime/api/plan_view.h"
#include "tools/common/command.h"
#include "tools/common/report.h"

namespace infer {

/// `which`: "final" (what the program runs), "all", or the name of a step of compiling.
/// InvalidArgument lists those that there are; Unsupported where the device shows none.
Status ShowPlan(Context& context, const std::string& which, std::span<const PlanView> views,
                Json& report);

}  // namespace infer
