#pragma once
/// Proof of a whole model: the rewritten graph against the golden one, on the user's data or on
/// random inputs. Shared by fuse and quantize.
#include "quant/accuracy/code_check.h"
#include "quant/accuracy/compare.h"
#include "quant/accuracy/gate.h"
#include "tools/common/data_options.h"
#include "tools/common/input_values.h"
#include "tools/common/model_options.h"
#include "tools/common/report.h"
#include "tools/common/roundoff.h"

namespace infer {

struct RandomRuns {
  Samples samples;
  OpenExtents extents;  ///< of the dimensions that the model leaves open
};
/// `runs` random inputs on which the graph runs, as `run` finds with the first of them, or with all
/// where there are integers: draws that the graph refuses are left out then, and a note says so.
/// `g` must outlive the result. InvalidArgument when too few were found.
Result<RandomRuns> RandomSamples(Context& context, const Graph& g, int64_t runs, uint64_t seed,
                                 const RunGraph& run);

/// Adds to `gates` what numbers alone do not say: outputs that are not floats must be equal, NaN
/// and infinities must stand at the same places. Drops a max-error gate that no output has.
void AddExactnessGates(const AccuracyReport& r, std::vector<GateResult>& gates);

struct RewriteJudgement {
  std::vector<GateResult> gates;
  std::optional<CodeCheck> codes;  ///< where the outputs alone did not pass and there are codes
};
/// Whether a rewrite kept the model: outputs within `tolerance`, exactness as above. Where they are
/// not and golden quantizes, codes may have moved across a border: then both sides are compared
/// from quantizer to quantizer, and codes may be off by what kCodeTolerance explains.
Result<RewriteJudgement> JudgeRewrite(Context& context, const Graph& golden, const Graph& candidate,
                                      const DeviceOptions& device, const Samples& samples,
                                      const AccuracyReport& accuracy, double tolerance);
Json ToJson(const CodeCheck& check);

/// Golden at level 0 against the candidate as `device` would run it.
Result<AccuracyReport> CompareGraphs(Context& context, const Graph& golden, const Graph& candidate,
                                     const DeviceOptions& device, const Samples& samples,
                                     bool per_layer);

}  // namespace infer
