#pragma once
/// eval --drift-from and --save-drift: whether samples, and what the model makes of them, still
/// come from where those of another set came from (runtime/engine/drift.h).
#include "quant/accuracy/gate.h"
#include "quant/calibrate/samples.h"
#include "runtime/api/program.h"
#include "runtime/engine/drift.h"
#include "tools/common/command.h"
#include "tools/common/report.h"

namespace infer {

/// Figures of the samples and of what the model makes of them.
Result<std::shared_ptr<const engine::DriftReference>> DriftReferenceOf(Context& context,
                                                                       const Graph& g,
                                                                       RunContext& run,
                                                                       const Samples& samples);

/// Of a file that --save-drift wrote. InvalidModel: of a model with other inputs or outputs. Io.
Result<std::shared_ptr<const engine::DriftReference>> LoadDriftReference(const std::string& path,
                                                                         const Graph& g);

/// Runs the model, prints what has moved and adds `drift` to the report. The gate fails where
/// something has, and is inconclusive below 50 samples on either side.
Result<GateResult> CheckDrift(Context& context, RunContext& run, size_t outputs,
                              std::shared_ptr<const engine::DriftReference> reference,
                              const Samples& samples, Json& report);

}  // namespace infer
