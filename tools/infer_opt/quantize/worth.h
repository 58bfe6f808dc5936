#pragma once
/// Whether a quantized model is worth having beside the fused FP32 one: the measurement at the end,
/// which accepts or rejects what was chosen without one.
#include "quant/calibrate/samples.h"
#include "tools/common/model_options.h"
#include "tools/common/report.h"
#include "tools/infer_opt/quantize/mode.h"

namespace infer {

struct WorthSide {
  const Graph& graph;
  int64_t bytes = 0;                  ///< of its file; of the FP32 side: as `fuse` writes it
  std::optional<ToldTime> told = {};  ///< by a table of the runtime that the file is for
};

/// Runs the model as `fuse` writes it and the candidate in turns on the first of `samples`, again
/// where the candidate looks slower, and judges by the rule of worth_rule.h. Prints what was
/// measured and fills report["worth"]; of a candidate that is slower or larger it warns, naming the
/// fused FP32 file. Returns whether it is neither.
Result<bool> TellWorth(Context& context, const WorthSide& fp32, const WorthSide& candidate,
                       const DeviceOptions& device, const Samples& samples,
                       const std::string& model_path, Json& report);

/// What needs no clock: warns of a file that is larger than the fused FP32 one, naming that.
void TellLarger(Context& context, int64_t fused_bytes, int64_t bytes,
                const std::string& model_path);

}  // namespace infer
