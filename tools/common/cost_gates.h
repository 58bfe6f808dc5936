#pragma once
/// --max-size and --min-speedup: what a candidate costs, beside how right it is.
#include "lib/support/statistics.h"
#include "tools/common/accuracy_report.h"
#include "tools/common/model_options.h"

namespace infer {

/// One side of a comparison of costs.
struct CostSide {
  const Graph& graph;
  int64_t bytes = -1;  ///< of its file with external data; -1: not known
};

/// One result per flag that was given. For --min-speedup both graphs are rewritten as infer-opt
/// fuse does, compiled for `device` and run in turns on the first of `samples`; `report` gets
/// "latency". InvalidArgument: --min-speedup without a sample or a golden side.
Result<std::vector<GateResult>> CheckCosts(Context& context, const GateFlags& flags,
                                           const DeviceOptions& device, const CostSide* golden,
                                           const CostSide& candidate, const Samples& samples,
                                           Json& report);

/// report["latency"]: both graphs rewritten and compiled as for --min-speedup and run in turns.
/// Returns golden's time over the candidate's with its 95 % interval.
Result<Summary> MeasureSpeedup(Context& context, const Graph& golden, const Graph& candidate,
                               const DeviceOptions& device, const std::vector<Datum>& inputs,
                               Json& report);

}  // namespace infer
