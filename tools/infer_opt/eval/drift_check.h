#pragma once
/// eval --drift-from: whether samples, and what the model makes of them, still come from where
/// those of another set came from (runtime/engine/drift.h).
#include "quant/accuracy/gate.h"
#include "quant/calibrate/samples.h"
#include "runtime/api/program.h"
#include "tools/common/command.h"
#include "tools/common/report.h"

namespace infer {

/// Runs the model on both, prints what has moved and adds `drift` to the report. The gate fails
/// where something has, and is inconclusive below 50 samples of either.
Result<GateResult> CheckDrift(Context& context, const Graph& g, RunContext& run,
                              const Samples& reference, const Samples& samples, Json& report);

}  // namespace infer
