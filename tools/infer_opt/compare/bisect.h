#pragma once
/// --bisect and --cut of infer-opt compare.
#include "quant/accuracy/breaking.h"
#include "tools/common/model_options.h"
#include "tools/common/report.h"

namespace infer {

struct BisectRequest {
  const Model& golden;
  const Model& candidate;
  const Samples& samples;
  const DeviceOptions& device;
  BreakOptions options;
  std::string cut;  ///< folder; "": none
};

/// Prints what breaks the limits, puts it into report["bisect"], and writes the folder of --cut:
/// model.onnx (the candidate's nodes), golden.onnx (golden's), and test_data_set_0 with what both
/// read and what golden makes of it on the first sample.
Status BisectLayers(Context& context, const BisectRequest& request, Json& report);

}  // namespace infer
